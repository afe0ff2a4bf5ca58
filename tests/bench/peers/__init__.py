"""Job J1 on other stream processors, next to the product: `make bench PEERS=1`."""
