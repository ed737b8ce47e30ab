import type { Command } from 'commander';
import type { Membership, User } from '../../access';
import type { AdminContext } from '../../server';
import { withAdminContext } from '../core';
import { UsageError } from '../exit';
import { showRecord, showTable } from '../output';
import { addDataCommand, type ConfigFlags } from '../options';
import { formatTime } from './timeText';

interface UserFlags extends ConfigFlags {
  readonly name?: string;
  readonly email?: string;
  readonly confirm?: string;
}

/** Adds `plantroom users create|list|show|update|remove`. */
export function addUsers(program: Command): void {
  const group = program.command('users').description('Manage users (the owners of API keys)');
  addDataCommand(group, 'create', 'Create a user. `members add` assigns a role in an organization.')
    .requiredOption('--name <name>', 'Name of the user')
    .option('--email <address>', 'E-mail address of the user', '')
    .action(createUser);
  addDataCommand(group, 'list', 'List the users, oldest first').action(listUsers);
  addDataCommand(group, 'show <id>', 'Show a user and their organizations; also a removed user').action(showUser);
  addDataCommand(group, 'update <id>', 'Change the name or the e-mail address of a user')
    .option('--name <name>', 'New name')
    .option('--email <address>', 'New e-mail address; "" removes it')
    .action(updateUser);
  addDataCommand(group, 'remove <id>', 'Remove a user from every organization and revoke their keys')
    .option('--confirm <name>', 'Exact name of the user; without it the command only shows what would be removed')
    .action(removeUser);
}

async function createUser(flags: ConfigFlags & { name: string; email: string }): Promise<void> {
  const { name, email } = flags;
  const user = await withAdminContext(
    flags,
    async (admin) =>
      await admin.audit.recordChange(
        'users create',
        { resource: 'users', fields: email === '' ? ['name'] : ['name', 'email'] },
        async () => await admin.users.create(name, email),
        ({ id }) => `users/${id}`,
      ),
  );
  showRecord(formatUser(user), flags);
}

async function listUsers(flags: ConfigFlags): Promise<void> {
  const users = await withAdminContext(flags, async (admin) => await admin.users.list());
  showTable(users.map(formatUser), ['id', 'name', 'email', 'createdAt'], flags);
}

async function showUser(id: string, flags: ConfigFlags): Promise<void> {
  const { memberships, removedAt, ...user } = await withAdminContext(
    flags,
    async (admin) => await admin.users.getWithMemberships(id),
  );
  const shown = { ...formatUser({ ...user, removedAt }), removedAt: formatTime(removedAt) };
  if (flags.json) return showRecord({ ...shown, memberships: memberships.map(formatMembership) }, flags);
  showRecord(shown, flags);
  showTable(
    memberships.map(formatMembership),
    ['organizationId', 'organizationName', 'roleId', 'roleName', 'createdAt'],
    flags,
  );
}

async function updateUser(id: string, flags: UserFlags): Promise<void> {
  const { name, email } = flags;
  if (name === undefined && email === undefined) throw new UsageError('nothing to change: set --name or --email');
  const fields = Object.entries({ name, email }).flatMap(([field, value]) => (value === undefined ? [] : [field]));
  const user = await withAdminContext(
    flags,
    async (admin) =>
      await admin.audit.recordChange(
        'users update',
        { resource: `users/${id}`, fields },
        async () => await admin.users.update(id, { name, email }),
      ),
  );
  showRecord(formatUser(user), flags);
}

/** Removes the user if --confirm is set, otherwise fails and says what would be removed. */
async function removeUser(id: string, flags: UserFlags): Promise<void> {
  const removed = await withAdminContext(flags, async (admin) => {
    const { name, memberships } = await admin.users.getWithMemberships(id);
    if (flags.confirm !== undefined) return await removeConfirmed(admin, id, flags.confirm, memberships);
    const from = memberships.map((membership) => JSON.stringify(membership.organizationName)).join(', ');
    throw new UsageError(
      `nothing was removed. This command removes ${JSON.stringify(name)} from ${from === '' ? 'no organization' : from} and revokes all their keys there: to confirm, repeat the command with --confirm and the exact name`,
    );
  });
  showRecord({ id, ...removed }, flags);
}

/**
 * Removes the user and records it in the audit trail of the installation and of each organization that the user belongs
 * to.
 */
async function removeConfirmed(
  admin: AdminContext,
  id: string,
  confirm: string,
  memberships: readonly Membership[],
): Promise<{ organizations: number; revokedApiKeys: number }> {
  let work = async () =>
    await admin.audit.recordChange(
      'users remove',
      { resource: `users/${id}` },
      async () => await admin.members.removeEverywhere(id, confirm),
    );
  // Each organization wraps the work of the previous ones in an event of its own.
  for (const { organizationId } of memberships) {
    const inner = work;
    work = async () =>
      await admin.audit.recordChange('users remove', { organizationId, resource: `members/${id}` }, inner);
  }
  return await work();
}

function formatUser({ id, name, email, createdAt }: User): Record<'id' | 'name' | 'email' | 'createdAt', unknown> {
  return { id, name, email, createdAt: formatTime(createdAt) };
}

function formatMembership({ createdAt, ...membership }: Membership): Record<keyof Membership, unknown> {
  return { ...membership, createdAt: formatTime(createdAt) };
}
