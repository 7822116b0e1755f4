"""HTTP transport to an API server: connections, requests, responses, diagnosis of errors."""
