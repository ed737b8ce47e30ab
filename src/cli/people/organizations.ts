import { type Command, InvalidArgumentError } from 'commander';
import type { DeletionForecast, Organization } from '../../access';
import { withCore } from '../core';
import { UsageError } from '../exit';
import { note, showRecord, showTable } from '../output';
import { DATA_SETTINGS, withConfig, withJson, type ConfigFlags } from '../options';
import { timeText } from './timeText';

interface CreateFlags extends ConfigFlags {
  readonly name: string;
  readonly owner?: string;
}

interface UpdateFlags extends ConfigFlags {
  readonly name?: string;
  readonly retentionDays?: number;
  readonly thinAfterDays?: number;
}

interface DeleteFlags extends ConfigFlags {
  readonly confirm?: string;
}

/** Adds `plantroom organizations create|list|show|update|delete`. */
export function addOrganizations(program: Command): void {
  const group = program.command('organizations').description('the organizations of this installation');
  organizationCommand(group, 'create', 'create an organization')
    .requiredOption('--name <name>', 'its name; several may have the same, their ids tell them apart')
    .option('--owner <id>', 'the person that becomes its owner (default: the only one there is)')
    .action(createOrganization);
  organizationCommand(group, 'list', 'list the organizations, oldest first').action(listOrganizations);
  organizationCommand(group, 'show <id>', 'show an organization, and how much belongs to it').action(showOrganization);
  organizationCommand(group, 'update <id>', 'rename an organization, or change how long it keeps readings')
    .option('--name <name>', 'another name')
    .option('--retention-days <days>', 'how many days readings are kept, 1 to 36500', wholeNumber)
    .option('--thin-after-days <days>', 'after how many days single readings make way for a summary of each hour; "never" keeps them', daysOrNever)
    .action(updateOrganization);
  organizationCommand(group, 'delete <id>', 'delete an organization with all that belongs to it; the server removes its data within the next minutes, or once it is started')
    .option('--confirm <name>', 'the exact name of the organization; without it the command only says what would go')
    .action(deleteOrganization);
}

function organizationCommand(group: Command, name: string, description: string): Command {
  return withConfig(withJson(group.command(name).description(description)), DATA_SETTINGS);
}

async function createOrganization({ name, owner, ...flags }: CreateFlags): Promise<void> {
  const fields = ['name', ...(owner === undefined ? [] : ['owner_user_id'])];
  const organization = await withCore(flags, async ({ audit, organizations }) =>
    await audit.change('organizations create', { resource: 'organizations', fields }, async () => await organizations.create(name, owner), ({ id }) => `organizations/${id}`));
  showRecord(organizationShown(organization), flags);
}

async function listOrganizations(flags: ConfigFlags): Promise<void> {
  const organizations = await withCore(flags, async (core) => await core.organizations.list());
  showTable(organizations.map(organizationShown), ['id', 'name', 'readingRetentionDays', 'thinReadingsAfterDays', 'createdAt'], flags);
}

async function showOrganization(id: string, flags: ConfigFlags): Promise<void> {
  const { organization, ...holds } = await withCore(flags, async (core) => await core.deletion.forecast(id));
  showRecord({ ...organizationShown(organization), ...holds }, flags);
}

async function updateOrganization(id: string, { name, retentionDays: readingRetentionDays, thinAfterDays: thinReadingsAfterDays, ...flags }: UpdateFlags): Promise<void> {
  const given = Object.entries({ name, reading_retention_days: readingRetentionDays, thin_readings_after_days: thinReadingsAfterDays }).filter(([, value]) => value !== undefined);
  if (given.length === 0) throw new UsageError('say what to change: --name, --retention-days or --thin-after-days');
  const organization = await withCore(flags, async ({ audit, organizations }) => {
    await organizations.pick(id); // the trail has no chain for one that is not there
    const change = { organizationId: id, resource: `organizations/${id}`, fields: given.map(([field]) => field) };
    return await audit.change('organizations update', change, async () => await organizations.update(id, { name, readingRetentionDays, thinReadingsAfterDays }));
  });
  showRecord(organizationShown(organization), flags);
}

async function deleteOrganization(id: string, { confirm, ...flags }: DeleteFlags): Promise<void> {
  const forecast = await withCore(flags, async ({ audit, deletion }) => {
    const before = await deletion.forecast(id);
    if (confirm !== undefined) await audit.change('organizations delete', { resource: `organizations/${id}`, fields: ['name'] }, async () => await deletion.delete(id, confirm));
    return before;
  });
  showRecord(deletionShown(forecast, confirm !== undefined), flags);
  if (confirm === undefined) throw new UsageError(`nothing was deleted: with ${JSON.stringify(forecast.organization.name)} all of this would go, and its readings and pictures too; repeat the command with --confirm and the exact name`);
  if (!flags.json) note('\nIts keys have ended. A running server removes its data within the next minutes; where none runs, the next one to start does.');
}

function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('give a whole number, for example 365');
  return Number(text);
}

function daysOrNever(text: string): number {
  return text === 'never' ? 0 : wholeNumber(text);
}

function organizationShown({ id, name, readingRetentionDays, thinReadingsAfterDays, createdAt }: Organization): Record<'id' | 'name' | 'readingRetentionDays' | 'thinReadingsAfterDays' | 'createdAt', unknown> {
  return { id, name, readingRetentionDays, thinReadingsAfterDays: thinReadingsAfterDays ?? null, createdAt: timeText(createdAt) };
}

function deletionShown({ organization, ...holds }: DeletionForecast, deleted: boolean): Record<string, unknown> {
  return { id: organization.id, name: organization.name, deleted, ...holds };
}
