import type { Command } from 'commander';
import type { ConfigFlags } from '../options';

const VARIABLE = 'PLANTROOM_ORGANIZATION_ID';

/** What every command takes that works in one organization. */
export interface OrganizationFlags extends ConfigFlags {
  readonly organization?: string;
}

/** Adds --organization, which the variable stands in for. */
export function withOrganization(command: Command): Command {
  return command.option('--organization <id>', `the organization (${VARIABLE}; default: the only one there is)`);
}

/** The organization that is named, by the flag or by the variable as for `plantroom call`; undefined: none is. */
export function namedOrganization({ organization }: OrganizationFlags, env: NodeJS.ProcessEnv = process.env): string | undefined {
  return organization ?? (env[VARIABLE] || undefined);
}
