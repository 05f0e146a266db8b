select h.host, h.allow_private, h.created_at, h.created_by from tidegate.webhook_host as h order by h.host;
