-- The secrets that sign: none of them is shown again.
select s.id, s.host, s.created_at, s.expires_at
from tidegate.webhook_secret as s
where s.expires_at is null or s.expires_at > tidegate.clock()
order by s.host nulls first, s.id;
