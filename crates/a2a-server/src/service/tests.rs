mod history;
mod leases;
mod limits;
mod messages;
mod webhooks;
mod workspaces;
