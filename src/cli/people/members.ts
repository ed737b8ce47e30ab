import type { Command } from 'commander';
import type { Member } from '../../access';
import { UsageError } from '../exit';
import { showRecord, showTable } from '../output';
import { COMMAND_LINE } from './commandLine';
import { addOrganizationDataCommand, type OrganizationFlags } from './organizationFlag';
import { runAudited, runInOrganization } from './runInOrganization';
import { formatTime } from './timeText';

interface AddFlags extends OrganizationFlags {
  readonly user?: string;
  readonly name?: string;
  readonly email?: string;
  readonly role: string;
}

const ROLE = 'Role: owner, admin, operator, viewer, or the id of a custom role of the organization';

/** Adds `plantroom members add|list|update|remove`. */
export function addMembers(program: Command): void {
  const group = program.command('members').description('Manage the members of an organization and their roles');
  addOrganizationDataCommand(group, 'add', 'Add a member to an organization')
    .option('--user <id>', 'Id of an existing user')
    .option('--name <name>', 'Name of a new user')
    .option('--email <address>', 'E-mail address of a new user')
    .requiredOption('--role <id>', ROLE)
    .action(addMember);
  addOrganizationDataCommand(group, 'list', 'List the members of an organization, newest first').action(listMembers);
  addOrganizationDataCommand(
    group,
    'update <user>',
    'Change the role of a member. Their keys change immediately (within 1 s in a running server).',
  )
    .requiredOption('--role <id>', ROLE)
    .action(updateMember);
  addOrganizationDataCommand(
    group,
    'remove <user>',
    'Remove a member from an organization and revoke their keys in it',
  ).action(removeMember);
}

/** Adds a member: an existing user, or a new user, who is created. */
async function addMember(flags: AddFlags): Promise<void> {
  const isExistingUser = flags.user !== undefined;
  const isNewUser = flags.name !== undefined;
  if (isExistingUser === isNewUser)
    throw new UsageError('use either --user ID for an existing user, or --name NAME for a new user');
  const input = { userId: flags.user ?? '', name: flags.name, email: flags.email ?? '', roleId: flags.role };
  const change = {
    resource: 'members',
    fields: [flags.user === undefined ? 'name' : 'userId', ...(flags.email === undefined ? [] : ['email']), 'roleId'],
  };
  const added = await runAudited(
    flags,
    'members add',
    change,
    async (admin, organizationId) => await admin.members.add(COMMAND_LINE, organizationId, input),
    ({ userId }) => `members/${userId}`,
  );
  showRecord(formatMember(added), flags);
}

async function listMembers(flags: OrganizationFlags): Promise<void> {
  const members = await runInOrganization(
    flags,
    async (admin, organizationId) => await admin.members.list(organizationId),
  );
  showTable(members.map(formatMember), ['userId', 'name', 'email', 'roleId', 'roleName', 'createdAt'], flags);
}

async function updateMember(userId: string, flags: OrganizationFlags & { role: string }): Promise<void> {
  const change = { resource: `members/${userId}`, fields: ['roleId'] };
  const updated = await runAudited(
    flags,
    'members update',
    change,
    async (admin, organizationId) => await admin.members.update(COMMAND_LINE, organizationId, userId, flags.role),
  );
  showRecord(formatMember(updated), flags);
}

async function removeMember(userId: string, flags: OrganizationFlags): Promise<void> {
  const removed = await runAudited(
    flags,
    'members remove',
    { resource: `members/${userId}` },
    async (admin, organizationId) => ({
      userId,
      organizationId,
      ...(await admin.members.remove(COMMAND_LINE, organizationId, userId)),
    }),
  );
  showRecord(removed, flags);
}

function formatMember(
  member: Member,
): Record<'userId' | 'name' | 'email' | 'roleId' | 'roleName' | 'createdAt', unknown> & Record<string, unknown> {
  return { ...member, createdAt: formatTime(member.createdAt), updatedAt: formatTime(member.updatedAt) };
}
