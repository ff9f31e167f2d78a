-- Whether an order was given before. Parameters: id (uuid). Rows: one when it was.
SELECT true FROM rajada.orders o WHERE o.id = %(id)s
