"""From stored runs to numbers: typed frames, rates with honest intervals, comparisons, cost, failures."""
