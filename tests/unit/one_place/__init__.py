"""What is added to Sluicegate in one place works everywhere: each test changes a copy of the product."""
