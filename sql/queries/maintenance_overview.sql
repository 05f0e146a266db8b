select duty, extract(epoch from overdue)::float8 as overdue_seconds from tidegate.maintenance_overview order by duty;
