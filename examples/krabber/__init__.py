"""Krabber: krabs follow krabs, post molts, and read what comes up in their Trench. On one DynamoDB table."""
