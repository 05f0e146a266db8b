select
  coalesce(sum(o.waiting), 0)::bigint as waiting, coalesce(sum(o.under_way), 0)::bigint as under_way,
  coalesce(sum(o.failed), 0)::bigint as failed,
  coalesce(extract(epoch from max(o.oldest_age)), 0)::float8 as oldest_seconds
from tidegate.webhook_overview as o;
