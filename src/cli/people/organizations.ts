import { type Command, InvalidArgumentError } from 'commander';
import type { DeletionForecast, Organization } from '../../access';
import { withAdminContext } from '../core';
import { UsageError } from '../exit';
import { note, showRecord, showTable } from '../output';
import { addDataCommand, type ConfigFlags } from '../options';
import { formatTime } from './timeText';

interface CreateFlags extends ConfigFlags {
  readonly name: string;
  readonly owner?: string;
}

interface UpdateFlags extends ConfigFlags {
  readonly name?: string;
  readonly retentionDays?: number;
  readonly downsampleAfterDays?: number;
}

interface DeleteFlags extends ConfigFlags {
  readonly confirm?: string;
}

/** Adds `plantroom organizations create|list|show|update|delete`. */
export function addOrganizations(program: Command): void {
  const group = program.command('organizations').description('Manage the organizations of this installation');
  addDataCommand(group, 'create', 'Create an organization')
    .requiredOption('--name <name>', 'Name of the organization; it does not have to be unique')
    .option('--owner <id>', 'User that becomes its owner (default: the only user)')
    .action(createOrganization);
  addDataCommand(group, 'list', 'List the organizations, oldest first').action(listOrganizations);
  addDataCommand(
    group,
    'show <id>',
    'Show an organization, and the number of its devices, connections, members and keys',
  ).action(showOrganization);
  addDataCommand(group, 'update <id>', 'Rename an organization, or change the retention of its readings')
    .option('--name <name>', 'New name')
    .option('--retention-days <days>', 'Number of days that readings are kept, 1 to 36500', parseWholeNumber)
    .option(
      '--downsample-after-days <days>',
      'Number of days after which single readings are replaced by hourly summaries; "never" keeps them',
      (text) => (text === 'never' ? 0 : parseWholeNumber(text)),
    )
    .action(updateOrganization);
  addDataCommand(
    group,
    'delete <id>',
    'Delete an organization and everything that belongs to it. The server deletes its data within minutes, or after its next start.',
  )
    .option(
      '--confirm <name>',
      'Exact name of the organization; without it the command only shows what would be deleted',
    )
    .action(deleteOrganization);
}

async function createOrganization({ name, owner, ...flags }: CreateFlags): Promise<void> {
  const fields = ['name', ...(owner === undefined ? [] : ['owner_user_id'])];
  const organization = await withAdminContext(
    flags,
    async ({ audit, organizations }) =>
      await audit.recordChange(
        'organizations create',
        { resource: 'organizations', fields },
        async () => await organizations.create(name, owner),
        ({ id }) => `organizations/${id}`,
      ),
  );
  showRecord(formatOrganization(organization), flags);
}

async function listOrganizations(flags: ConfigFlags): Promise<void> {
  const organizations = await withAdminContext(flags, async (admin) => await admin.organizations.list());
  showTable(
    organizations.map(formatOrganization),
    ['id', 'name', 'readingRetentionDays', 'downsampleAfterDays', 'createdAt'],
    flags,
  );
}

async function showOrganization(id: string, flags: ConfigFlags): Promise<void> {
  const { organization, ...counts } = await withAdminContext(
    flags,
    async (admin) => await admin.deletion.countRecords(id),
  );
  showRecord({ ...formatOrganization(organization), ...counts }, flags);
}

async function updateOrganization(
  id: string,
  { name, retentionDays: readingRetentionDays, downsampleAfterDays, ...flags }: UpdateFlags,
): Promise<void> {
  const changes = Object.entries({
    name,
    reading_retention_days: readingRetentionDays,
    downsample_after_days: downsampleAfterDays,
  }).filter(([, value]) => value !== undefined);
  if (changes.length === 0)
    throw new UsageError('nothing to change: set --name, --retention-days or --downsample-after-days');
  const organization = await withAdminContext(flags, async ({ audit, organizations }) => {
    await organizations.getByIdOrOnly(id); // the audit trail has no chain for an organization that does not exist
    const change = { organizationId: id, resource: `organizations/${id}`, fields: changes.map(([field]) => field) };
    return await audit.recordChange(
      'organizations update',
      change,
      async () => await organizations.update(id, { name, readingRetentionDays, downsampleAfterDays }),
    );
  });
  showRecord(formatOrganization(organization), flags);
}

/** Shows what belongs to an organization, and deletes it if --confirm has its exact name. */
async function deleteOrganization(id: string, { confirm, ...flags }: DeleteFlags): Promise<void> {
  const forecast = await withAdminContext(flags, async ({ audit, deletion }) => {
    const before = await deletion.countRecords(id);
    if (confirm !== undefined)
      await audit.recordChange(
        'organizations delete',
        { resource: `organizations/${id}`, fields: ['name'] },
        async () => await deletion.delete(id, confirm),
      );
    return before;
  });
  showRecord(formatDeletion(forecast, confirm !== undefined), flags);
  if (confirm === undefined)
    throw new UsageError(
      `nothing was deleted. Deleting ${JSON.stringify(forecast.organization.name)} deletes all of this, and its readings and images: to confirm, repeat the command with --confirm and the exact name`,
    );
  if (!flags.json)
    note(
      '\nIts keys are revoked. A running server deletes its data within minutes; otherwise the server deletes it after its next start.',
    );
}

function parseWholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('use a whole number, for example 365');
  return Number(text);
}

function formatOrganization({
  id,
  name,
  readingRetentionDays,
  downsampleAfterDays,
  createdAt,
}: Organization): Record<'id' | 'name' | 'readingRetentionDays' | 'downsampleAfterDays' | 'createdAt', unknown> {
  return {
    id,
    name,
    readingRetentionDays,
    downsampleAfterDays: downsampleAfterDays ?? null,
    createdAt: formatTime(createdAt),
  };
}

function formatDeletion({ organization, ...counts }: DeletionForecast, deleted: boolean): Record<string, unknown> {
  return { id: organization.id, name: organization.name, deleted, ...counts };
}
