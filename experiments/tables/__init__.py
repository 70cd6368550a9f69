"""The paper's tables, cost, comparison, search and headline, from compact records of runs."""
