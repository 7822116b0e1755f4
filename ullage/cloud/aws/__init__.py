"""Nodes from Amazon EC2. Needs the extra `aws` (boto3)."""
