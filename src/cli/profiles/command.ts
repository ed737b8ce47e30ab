import { type Command, InvalidArgumentError, Option } from 'commander';
import type { CodecRole } from '../../profiles';
import { DATA_SETTINGS, withConfig, withJson } from '../options';
import type * as importProfiles from './importProfiles';
import type { ImportFlags } from './importProfiles';
import type * as listProfiles from './listProfiles';
import type { ListFlags } from './listProfiles';
import type * as removeProfiles from './removeProfiles';
import type { RemoveFlags } from './removeProfiles';
import type * as showProfile from './showProfile';
import type { ShowFlags } from './showProfile';

// What reads repositories is loaded only by the command that needs it.
const lazyImport = (): typeof importProfiles => require('./importProfiles');
const lazyList = (): typeof listProfiles => require('./listProfiles');
const lazyShow = (): typeof showProfile => require('./showProfile');
const lazyRemove = (): typeof removeProfiles => require('./removeProfiles');

const ROLES: readonly CodecRole[] = ['encoder', 'decoder', 'downlinkDecoder'];

/** Adds `plantroom profiles import|list|show|remove`. */
export function addProfiles(program: Command): void {
  const group = program.command('profiles').description('LoRaWAN device profiles, from a copy of one of the public repositories');
  profileCommand(group, 'import <folder>', 'import a copy of lorawan-devices or of chirpstack-device-profiles; what did not change is not written, and no profile is removed')
    .option('--vendor <id>', 'only this vendor, by the name of its folder; may be given more than once', collected)
    .addHelpText('after', '\nExample:\n  plantroom profiles import lorawan-devices --vendor acme')
    .action((folder: string, flags: ImportFlags) => lazyImport().runImport(folder, flags));
  profileCommand(group, 'list', 'list the imported models by brand and name')
    .option('--search <text>', 'only models whose brand or model holds this, by id or name')
    .option('--brand <brand>', 'only this brand, by id or name')
    .option('--model <model>', 'only this model, by id or name')
    .option('--band <band>', 'only what there is for this band, for example EU868')
    .option('--ids', 'a line for each profile with its id, instead of one for each model')
    .addOption(new Option('--limit <count>', 'at most so many models').argParser(count).default(50))
    .action((flags: ListFlags) => lazyList().runList(flags));
  profileCommand(group, 'show <id>', 'show a profile, and how many devices use it')
    .option('--codec', 'only its codec, as one script')
    .addOption(new Option('--role <role>', 'with --codec: only the file that does this, as the server runs it').choices(ROLES).implies({ codec: true }))
    .action((id: string, flags: ShowFlags) => lazyShow().runShow(id, flags));
  profileCommand(group, 'remove [ids...]', 'remove profiles that no device uses, with what only they needed')
    .option('--brand <id>', 'all of this brand')
    .option('--source <name>', 'all from this repository, lorawan-devices or chirpstack-device-profiles; with --brand only those of the brand')
    .action((ids: readonly string[], flags: RemoveFlags) => lazyRemove().runRemove(ids, flags));
}

function profileCommand(group: Command, name: string, description: string): Command {
  return withConfig(withJson(group.command(name).description(description)), DATA_SETTINGS);
}

function collected(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

function count(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('give a whole number from 1 to 999999');
  return Number(text);
}
