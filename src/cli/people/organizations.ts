import type { Command } from 'commander';
import type { Organization, User } from '../../access';
import { withCore } from '../core';
import { showRecord, showTable } from '../output';
import { DATA_SETTINGS, withConfig, withJson, type ConfigFlags } from '../options';
import { timeText } from './timeText';

/** Adds `plantroom organizations create|list`. */
export function addOrganizations(program: Command): void {
  const group = program.command('organizations').description('the organizations of this installation');
  withConfig(withJson(group.command('create').description('create an organization')), DATA_SETTINGS)
    .requiredOption('--name <name>', 'its name, unique in the installation')
    .action(async (flags: ConfigFlags & { name: string }) => showRecord(organizationShown(await withCore(flags, (core) => core.organizations.create(flags.name))), flags));
  withConfig(withJson(group.command('list').description('list the organizations, oldest first')), DATA_SETTINGS).action(async (flags: ConfigFlags) =>
    showTable((await withCore(flags, (core) => core.organizations.list())).map(organizationShown), ['id', 'name', 'createdAt'], flags),
  );
}

/** Adds `plantroom users create|list`. */
export function addUsers(program: Command): void {
  const group = program.command('users').description('the people that keys belong to');
  withConfig(withJson(group.command('create').description('create a person')), DATA_SETTINGS)
    .requiredOption('--name <name>', 'the name of the person')
    .option('--email <address>', 'the e-mail address of the person', '')
    .action(async (flags: ConfigFlags & { name: string; email: string }) => showRecord(userShown(await withCore(flags, (core) => core.users.create(flags.name, flags.email))), flags));
  withConfig(withJson(group.command('list').description('list the people, oldest first')), DATA_SETTINGS).action(async (flags: ConfigFlags) =>
    showTable((await withCore(flags, (core) => core.users.list())).map(userShown), ['id', 'name', 'email', 'createdAt'], flags),
  );
}

function organizationShown({ id, name, createdAt }: Organization): Record<'id' | 'name' | 'createdAt', unknown> {
  return { id, name, createdAt: timeText(createdAt) };
}

function userShown({ id, name, email, createdAt }: User): Record<'id' | 'name' | 'email' | 'createdAt', unknown> {
  return { id, name, email, createdAt: timeText(createdAt) };
}
