import type { Command } from 'commander';
import type { Membership, User } from '../../access';
import type { Core } from '../../app';
import { withCore } from '../core';
import { UsageError } from '../exit';
import { showRecord, showTable } from '../output';
import { DATA_SETTINGS, withConfig, withJson, type ConfigFlags } from '../options';
import { timeText } from './timeText';

interface UserFlags extends ConfigFlags {
  readonly name?: string;
  readonly email?: string;
  readonly confirm?: string;
}

/** Adds `plantroom users create|list|show|update|remove`. */
export function addUsers(program: Command): void {
  const group = program.command('users').description('the people that keys belong to');
  userCommand(group, 'create', 'create a person; `members add` gives them a role in an organization')
    .requiredOption('--name <name>', 'the name of the person')
    .option('--email <address>', 'the e-mail address of the person', '')
    .action(createUser);
  userCommand(group, 'list', 'list the people, oldest first').action(listUsers);
  userCommand(group, 'show <id>', 'show a person with the organizations that they belong to; also one who was removed').action(showUser);
  userCommand(group, 'update <id>', 'change the name or the e-mail address of a person')
    .option('--name <name>', 'another name')
    .option('--email <address>', 'another e-mail address; "" takes it away')
    .action(updateUser);
  userCommand(group, 'remove <id>', 'remove a person from every organization and revoke their keys')
    .option('--confirm <name>', 'the exact name of the person; without it the command only says what would go')
    .action(removeUser);
}

function userCommand(group: Command, name: string, description: string): Command {
  return withConfig(withJson(group.command(name).description(description)), DATA_SETTINGS);
}

async function createUser(flags: ConfigFlags & { name: string; email: string }): Promise<void> {
  const { name, email } = flags;
  const user = await withCore(flags, async (core) => await core.audit.change('users create', { resource: 'users', fields: email === '' ? ['name'] : ['name', 'email'] }, async () => await core.users.create(name, email), ({ id }) => `users/${id}`));
  showRecord(userShown(user), flags);
}

async function listUsers(flags: ConfigFlags): Promise<void> {
  const users = await withCore(flags, async (core) => await core.users.list());
  showTable(users.map(userShown), ['id', 'name', 'email', 'createdAt'], flags);
}

async function showUser(id: string, flags: ConfigFlags): Promise<void> {
  const { memberships, removedAt, ...user } = await withCore(flags, async (core) => await core.users.show(id));
  const shown = { ...userShown({ ...user, removedAt }), removedAt: timeText(removedAt) };
  if (flags.json) return showRecord({ ...shown, memberships: memberships.map(membershipShown) }, flags);
  showRecord(shown, flags);
  showTable(memberships.map(membershipShown), ['organizationId', 'organizationName', 'roleId', 'roleName', 'createdAt'], flags);
}

async function updateUser(id: string, flags: UserFlags): Promise<void> {
  const { name, email } = flags;
  if (name === undefined && email === undefined) throw new UsageError('say what to change: --name or --email');
  const fields = Object.entries({ name, email }).flatMap(([field, value]) => (value === undefined ? [] : [field]));
  const user = await withCore(flags, async (core) => await core.audit.change('users update', { resource: `users/${id}`, fields }, async () => await core.users.update(id, { name, email })));
  showRecord(userShown(user), flags);
}

async function removeUser(id: string, flags: UserFlags): Promise<void> {
  const removed = await withCore(flags, async (core) => {
    const { name, memberships } = await core.users.show(id);
    if (flags.confirm !== undefined) return await removeConfirmed(core, id, flags.confirm, memberships);
    const from = memberships.map((membership) => JSON.stringify(membership.organizationName)).join(', ');
    throw new UsageError(`nothing was removed: this takes ${JSON.stringify(name)} out of ${from === '' ? 'no organization' : from} and revokes every key of theirs there; repeat it with --confirm and the exact name`);
  });
  showRecord({ id, ...removed }, flags);
}

/** In the trail of the installation, and in that of each organization that the person belongs to. */
async function removeConfirmed(core: Core, id: string, confirm: string, memberships: readonly Membership[]): Promise<{ organizations: number; revokedApiKeys: number }> {
  let work = async () => await core.audit.change('users remove', { resource: `users/${id}` }, async () => await core.members.removeEverywhere(id, confirm));
  for (const { organizationId } of memberships) {
    const inner = work;
    work = async () => await core.audit.change('users remove', { organizationId, resource: `members/${id}` }, inner);
  }
  return await work();
}

function userShown({ id, name, email, createdAt }: User): Record<'id' | 'name' | 'email' | 'createdAt', unknown> {
  return { id, name, email, createdAt: timeText(createdAt) };
}

function membershipShown({ createdAt, ...membership }: Membership): Record<keyof Membership, unknown> {
  return { ...membership, createdAt: timeText(createdAt) };
}
