import type { Command } from 'commander';
import { normalizeId } from '../../kernel/ids';
import { addDataCommand, type ConfigFlags } from '../options';

const ORGANIZATION_VARIABLE = 'PLANTROOM_ORGANIZATION_ID';

/** The flags of every command that works in one organization. */
export interface OrganizationFlags extends ConfigFlags {
  readonly organization?: string;
}

/** Adds --organization; the environment variable is its default. */
export function withOrganization(command: Command): Command {
  return command.option(
    '--organization <id>',
    `Organization id (${ORGANIZATION_VARIABLE}; default: the only organization)`,
  );
}

/** Adds a subcommand that works in one organization of the data folder. */
export function addOrganizationDataCommand(group: Command, name: string, description: string): Command {
  return withOrganization(addDataCommand(group, name, description));
}

/**
 * Returns the organization id of the flag, or of the environment variable as for `plantroom call`; undefined if neither
 * is set.
 */
export function getOrganizationId({ organization }: OrganizationFlags): string | undefined {
  const id = organization ?? (process.env[ORGANIZATION_VARIABLE] || undefined);
  return id === undefined ? undefined : normalizeId(id);
}
