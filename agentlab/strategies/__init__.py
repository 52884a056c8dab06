"""The methods that are compared: one file each, registered by name in `base`."""
