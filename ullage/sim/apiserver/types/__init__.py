"""The types of the built-in kinds, whole: their fields, how those are merged, and their numbers in the binary form.

`builtin.txt` holds the facts, as Kubernetes 1.36 publishes them in its OpenAPI documents and `generated.proto` files: a
line for each type, followed by one for each field: name, number (`2.19` lies in an embedded message), type, and how it
is completed and merged. The rules of a kind (`rules`) say what is done with its fields; here is only what there is.
"""
