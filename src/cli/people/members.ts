import type { Command } from 'commander';
import type { CommandChange, Member } from '../../access';
import type { Core } from '../../app';
import { withCore } from '../core';
import { UsageError } from '../exit';
import { showRecord, showTable } from '../output';
import { DATA_SETTINGS, withConfig, withJson } from '../options';
import { COMMAND_LINE } from './commandLine';
import { namedOrganization, withOrganization, type OrganizationFlags } from './organizationFlag';
import { timeText } from './timeText';

interface AddFlags extends OrganizationFlags {
  readonly user?: string;
  readonly name?: string;
  readonly email?: string;
  readonly role: string;
}

const ROLE = 'owner, admin, operator, viewer, or the id of a role of the organization';

/** Adds `plantroom members add|list|update|remove`. */
export function addMembers(program: Command): void {
  const group = program.command('members').description('the people of an organization, and the role of each');
  memberCommand(group, 'add', 'add a person to an organization')
    .option('--user <id>', 'a person that there is')
    .option('--name <name>', 'the name of a new person')
    .option('--email <address>', 'the e-mail address of a new person')
    .requiredOption('--role <id>', ROLE)
    .action(addMember);
  memberCommand(group, 'list', 'list the people of an organization, newest first').action(listMembers);
  memberCommand(group, 'update <user>', 'give a person another role: what their keys may do changes at once (1 s in a running server)')
    .requiredOption('--role <id>', ROLE)
    .action(updateMember);
  memberCommand(group, 'remove <user>', 'remove a person from an organization and revoke their keys in it').action(removeMember);
}

function memberCommand(group: Command, name: string, description: string): Command {
  return withOrganization(withConfig(withJson(group.command(name).description(description)), DATA_SETTINGS));
}

async function inOrganization<T>(flags: OrganizationFlags, work: (core: Core, organizationId: string) => Promise<T>): Promise<T> {
  return await withCore(flags, async (core) => await work(core, (await core.organizations.pick(namedOrganization(flags))).id));
}

/** The same, in the audit trail. */
async function changing<T>(flags: OrganizationFlags, method: string, change: Pick<CommandChange, 'resource' | 'fields'>, work: (core: Core, organizationId: string) => Promise<T>, made?: (result: T) => string): Promise<T> {
  return await inOrganization(flags, async (core, organizationId) => await core.audit.change(method, { organizationId, ...change }, async () => await work(core, organizationId), made));
}

async function addMember(flags: AddFlags): Promise<void> {
  if ((flags.user === undefined) === (flags.name === undefined)) throw new UsageError('say whom to add: either --user ID, or --name NAME for a new person');
  const wanted = { userId: flags.user ?? '', name: flags.name, email: flags.email ?? '', roleId: flags.role };
  const change = { resource: 'members', fields: [flags.user === undefined ? 'name' : 'userId', ...(flags.email === undefined ? [] : ['email']), 'roleId'] };
  const added = await changing(flags, 'members add', change, async (core, organizationId) => await core.members.add(COMMAND_LINE, organizationId, wanted), ({ userId }) => `members/${userId}`);
  showRecord(memberShown(added), flags);
}

async function listMembers(flags: OrganizationFlags): Promise<void> {
  const members = await inOrganization(flags, async (core, organizationId) => await core.members.list(organizationId));
  showTable(members.map(memberShown), ['userId', 'name', 'email', 'roleId', 'roleName', 'createdAt'], flags);
}

async function updateMember(userId: string, flags: OrganizationFlags & { role: string }): Promise<void> {
  const change = { resource: `members/${userId}`, fields: ['roleId'] };
  const updated = await changing(flags, 'members update', change, async (core, organizationId) => await core.members.update(COMMAND_LINE, organizationId, userId, flags.role));
  showRecord(memberShown(updated), flags);
}

async function removeMember(userId: string, flags: OrganizationFlags): Promise<void> {
  const removed = await changing(flags, 'members remove', { resource: `members/${userId}` }, async (core, organizationId) => ({ userId, organizationId, ...(await core.members.remove(COMMAND_LINE, organizationId, userId)) }));
  showRecord(removed, flags);
}

function memberShown(member: Member): Record<'userId' | 'name' | 'email' | 'roleId' | 'roleName' | 'createdAt', unknown> & Record<string, unknown> {
  return { ...member, createdAt: timeText(member.createdAt), updatedAt: timeText(member.updatedAt) };
}
