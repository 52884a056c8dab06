"""The suite `feature_flags`: is a feature flag set up as the rules ask?"""
