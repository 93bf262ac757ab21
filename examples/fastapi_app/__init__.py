"""A web shop in one process: requests in, durable work done beside them."""
