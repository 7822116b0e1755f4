"""The types of the built-in kinds, whole: their fields, how those are merged, and their numbers in the binary form.

`builtin.txt` holds the facts, as `generate` prints them from the Go types of Kubernetes: a line per type, then
one for each field: name, number (`2.19` lies in an embedded message), type, and how it is written, completed and
merged. Object schemas, merge schemas, the binary reader and the OpenAPI documents are derived from it. The rules of a
kind (`rules`) say what is done with its fields; here is only what there is.
"""
