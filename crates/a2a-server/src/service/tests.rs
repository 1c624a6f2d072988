mod leases;
mod messages;
mod workspaces;
