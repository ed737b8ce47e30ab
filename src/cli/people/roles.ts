import type { Command } from 'commander';
import type { Role } from '../../access';
import { expandScopes, SCOPES } from '../../kernel/scopes';
import { UsageError } from '../exit';
import { showRecord, showTable } from '../output';
import { parseCommaList } from '../options';
import { COMMAND_LINE } from './commandLine';
import { addOrganizationDataCommand, type OrganizationFlags } from './organizationFlag';
import { runAudited, runInOrganization } from './runInOrganization';
import { formatTime } from './timeText';

interface ChangeFlags extends OrganizationFlags {
  readonly name?: string;
  readonly description?: string;
  readonly scopes?: string[];
}

const SCOPES_DESCRIPTION = `Comma-separated scopes that keys of members with this role can have: ${SCOPES.join(', ')}`;

/** Adds `plantroom roles create|list|update|delete`. */
export function addRoles(program: Command): void {
  const group = program.command('roles').description('Manage roles (sets of permissions)');
  addOrganizationDataCommand(group, 'create', 'Create a role in an organization')
    .requiredOption('--name <name>', 'Name of the role, unique in the organization')
    .requiredOption('--scopes <scopes>', SCOPES_DESCRIPTION, parseCommaList)
    .option('--description <text>', 'Purpose of the role', '')
    .action(createRole);
  addOrganizationDataCommand(
    group,
    'list',
    'List the roles: the four system roles, then the custom roles by name',
  ).action(listRoles);
  addOrganizationDataCommand(
    group,
    'update <id>',
    'Change a role. Keys of its members change immediately (within 1 s in a running server).',
  )
    .option('--name <name>', 'New name')
    .option('--scopes <scopes>', SCOPES_DESCRIPTION, parseCommaList)
    .option('--description <text>', 'New description')
    .action(updateRole);
  addOrganizationDataCommand(group, 'delete <id>', 'Delete a role that no member has').action(deleteRole);
}

async function createRole(
  flags: OrganizationFlags & { name: string; description: string; scopes: string[] },
): Promise<void> {
  const { name, description, scopes } = flags;
  assertNotEmpty(scopes);
  const change = { resource: 'roles', fields: ['name', ...(description === '' ? [] : ['description']), 'scopes'] };
  const created = await runAudited(
    flags,
    'roles create',
    change,
    async (admin, organizationId) =>
      await admin.roles.create(COMMAND_LINE, organizationId, { name, description, scopes }),
    ({ id }) => `roles/${id}`,
  );
  showRecord(formatRole(created), flags);
}

async function listRoles(flags: OrganizationFlags): Promise<void> {
  const roles = await runInOrganization(flags, async (admin, organizationId) => await admin.roles.list(organizationId));
  // In a table, the whole list of scopes would take too much space.
  const shown = roles.map((role) =>
    flags.json || expandScopes(role.scopes).size < SCOPES.length
      ? formatRole(role)
      : { ...formatRole(role), scopes: 'every scope' },
  );
  showTable(shown, ['id', 'name', 'description', 'scopes'], flags);
}

async function updateRole(id: string, flags: ChangeFlags): Promise<void> {
  const { name, description, scopes } = flags;
  if (name === undefined && description === undefined && scopes === undefined)
    throw new UsageError('nothing to change: set --name, --scopes or --description');
  if (scopes) assertNotEmpty(scopes);
  const fields = Object.entries({ name, description, scopes }).flatMap(([field, value]) =>
    value === undefined ? [] : [field],
  );
  const updated = await runAudited(
    flags,
    'roles update',
    { resource: `roles/${id}`, fields },
    async (admin, organizationId) =>
      await admin.roles.update(COMMAND_LINE, organizationId, id, { name, description, scopes }),
  );
  showRecord(formatRole(updated), flags);
}

async function deleteRole(id: string, flags: OrganizationFlags): Promise<void> {
  await runAudited(
    flags,
    'roles delete',
    { resource: `roles/${id}` },
    async (admin, organizationId) => await admin.roles.delete(COMMAND_LINE, organizationId, id),
  );
  showRecord({ id, deleted: true }, flags);
}

function assertNotEmpty(scopes: readonly string[]): void {
  if (scopes.length === 0) throw new UsageError('--scopes is empty: set at least one scope');
}

function formatRole(role: Role): Record<'id' | 'name' | 'description' | 'scopes', unknown> & Record<string, unknown> {
  return { ...role, createdAt: formatTime(role.createdAt), updatedAt: formatTime(role.updatedAt) };
}
