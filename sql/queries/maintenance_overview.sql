select
  duty, extract(epoch from overdue)::float8 as overdue_seconds, error, passed_over, passed_over_request,
  passed_over_error
from tidegate.maintenance_overview
order by duty;
