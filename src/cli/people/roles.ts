import type { Command } from 'commander';
import type { CommandChange, Role } from '../../access';
import type { Core } from '../../app';
import { SCOPES } from '../../kernel/scopes';
import { withCore } from '../core';
import { UsageError } from '../exit';
import { showRecord, showTable } from '../output';
import { commaList, DATA_SETTINGS, withConfig, withJson } from '../options';
import { COMMAND_LINE } from './commandLine';
import { namedOrganization, withOrganization, type OrganizationFlags } from './organizationFlag';
import { timeText } from './timeText';

interface ChangeFlags extends OrganizationFlags {
  readonly name?: string;
  readonly description?: string;
  readonly scopes?: string[];
}

const WHAT_IT_HOLDS = `what keys of those who have it may do at most, with commas between: ${SCOPES.join(', ')}`;

/** Adds `plantroom roles create|list|update|delete`. */
export function addRoles(program: Command): void {
  const group = program.command('roles').description('what the people of an organization may do');
  roleCommand(group, 'create', 'create a role of the organization')
    .requiredOption('--name <name>', 'its name, unique in the organization')
    .requiredOption('--scopes <scopes>', WHAT_IT_HOLDS, commaList)
    .option('--description <text>', 'what it is for', '')
    .action(createRole);
  roleCommand(group, 'list', 'list the roles: the four that every organization has, then its own by name').action(listRoles);
  roleCommand(group, 'update <id>', 'change a role: what the keys of its members may do changes at once (1 s in a running server)')
    .option('--name <name>', 'another name')
    .option('--scopes <scopes>', WHAT_IT_HOLDS, commaList)
    .option('--description <text>', 'another description')
    .action(updateRole);
  roleCommand(group, 'delete <id>', 'delete a role that nobody has').action(deleteRole);
}

function roleCommand(group: Command, name: string, description: string): Command {
  return withOrganization(withConfig(withJson(group.command(name).description(description)), DATA_SETTINGS));
}

async function inOrganization<T>(flags: OrganizationFlags, work: (core: Core, organizationId: string) => Promise<T>): Promise<T> {
  return await withCore(flags, async (core) => await work(core, (await core.organizations.pick(namedOrganization(flags))).id));
}

/** The same, in the audit trail. */
async function changing<T>(flags: OrganizationFlags, method: string, change: Pick<CommandChange, 'resource' | 'fields'>, work: (core: Core, organizationId: string) => Promise<T>, made?: (result: T) => string): Promise<T> {
  return await inOrganization(flags, async (core, organizationId) => await core.audit.change(method, { organizationId, ...change }, async () => await work(core, organizationId), made));
}

async function createRole(flags: OrganizationFlags & { name: string; description: string; scopes: string[] }): Promise<void> {
  const { name, description, scopes } = flags;
  refuseNone(scopes);
  const change = { resource: 'roles', fields: ['name', ...(description === '' ? [] : ['description']), 'scopes'] };
  const created = await changing(flags, 'roles create', change, async (core, organizationId) => await core.roles.create(COMMAND_LINE, organizationId, { name, description, scopes }), ({ id }) => `roles/${id}`);
  showRecord(roleShown(created), flags);
}

async function listRoles(flags: OrganizationFlags): Promise<void> {
  const roles = await inOrganization(flags, async (core, organizationId) => await core.roles.list(organizationId));
  // In a table the list of all of them would hide everything else.
  const shown = roles.map((role) => (flags.json || role.scopes.length < SCOPES.length ? roleShown(role) : { ...roleShown(role), scopes: 'every scope' }));
  showTable(shown, ['id', 'name', 'description', 'scopes'], flags);
}

async function updateRole(id: string, flags: ChangeFlags): Promise<void> {
  const { name, description, scopes } = flags;
  if (name === undefined && description === undefined && scopes === undefined) throw new UsageError('say what to change: --name, --scopes or --description');
  if (scopes) refuseNone(scopes);
  const fields = Object.entries({ name, description, scopes }).flatMap(([field, value]) => (value === undefined ? [] : [field]));
  const updated = await changing(flags, 'roles update', { resource: `roles/${id}`, fields }, async (core, organizationId) => await core.roles.update(COMMAND_LINE, organizationId, id, { name, description, scopes }));
  showRecord(roleShown(updated), flags);
}

async function deleteRole(id: string, flags: OrganizationFlags): Promise<void> {
  await changing(flags, 'roles delete', { resource: `roles/${id}` }, async (core, organizationId) => await core.roles.delete(COMMAND_LINE, organizationId, id));
  showRecord({ id, deleted: true }, flags);
}

function refuseNone(scopes: readonly string[]): void {
  if (scopes.length === 0) throw new UsageError('--scopes is empty; name at least one scope');
}

function roleShown(role: Role): Record<'id' | 'name' | 'description' | 'scopes', unknown> & Record<string, unknown> {
  return { ...role, createdAt: timeText(role.createdAt), updatedAt: timeText(role.updatedAt) };
}
