import { type Command, InvalidArgumentError } from 'commander';
import type { Organization } from '../../access';
import { withCore } from '../core';
import { UsageError } from '../exit';
import { showRecord, showTable } from '../output';
import { DATA_SETTINGS, withConfig, withJson, type ConfigFlags } from '../options';
import { timeText } from './timeText';

interface UpdateFlags extends ConfigFlags {
  readonly name?: string;
  readonly retentionDays?: number;
  readonly thinAfterDays?: number;
}

/** Adds `plantroom organizations create|update|list`. */
export function addOrganizations(program: Command): void {
  const group = program.command('organizations').description('the organizations of this installation');
  withConfig(withJson(group.command('create').description('create an organization')), DATA_SETTINGS)
    .requiredOption('--name <name>', 'its name, unique in the installation')
    .action(async (flags: ConfigFlags & { name: string }) => showRecord(organizationShown(await withCore(flags, (core) => core.organizations.create(flags.name))), flags));
  withConfig(withJson(group.command('update').description('rename an organization, or change how long it keeps readings').argument('<id>', 'the organization')), DATA_SETTINGS)
    .option('--name <name>', 'another name')
    .option('--retention-days <days>', 'how many days readings are kept, 1 to 36500', wholeNumber)
    .option('--thin-after-days <days>', 'after how many days single readings make way for a summary of each hour; "never" keeps them', daysOrNever)
    .action(updateOrganization);
  withConfig(withJson(group.command('list').description('list the organizations, oldest first')), DATA_SETTINGS).action(async (flags: ConfigFlags) =>
    showTable((await withCore(flags, (core) => core.organizations.list())).map(organizationShown), ['id', 'name', 'readingRetentionDays', 'thinReadingsAfterDays', 'createdAt'], flags),
  );
}

async function updateOrganization(id: string, flags: UpdateFlags): Promise<void> {
  const { name, retentionDays: readingRetentionDays, thinAfterDays: thinReadingsAfterDays } = flags;
  if (name === undefined && readingRetentionDays === undefined && thinReadingsAfterDays === undefined) throw new UsageError('say what to change: --name, --retention-days or --thin-after-days');
  showRecord(organizationShown(await withCore(flags, (core) => core.organizations.update(id, { name, readingRetentionDays, thinReadingsAfterDays }))), flags);
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
