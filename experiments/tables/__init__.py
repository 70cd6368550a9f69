"""The paper's tables, cost, comparison, search and headline, over one `Table`."""
