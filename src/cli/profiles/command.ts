import { type Command, InvalidArgumentError, Option } from 'commander';
import type { CodecRole } from '../../profiles';
import { addDataCommand, appendValue } from '../options';
import type * as importProfiles from './importProfiles';
import type { ImportFlags } from './importProfiles';
import type * as listProfiles from './listProfiles';
import type { ListFlags } from './listProfiles';
import type * as removeProfiles from './removeProfiles';
import type { RemoveFlags } from './removeProfiles';
import type * as showProfile from './showProfile';
import type { ShowFlags } from './showProfile';

// The modules are loaded on use, because they read repositories and other commands do not need them.
const loadImport = (): typeof importProfiles => require('./importProfiles');
const loadList = (): typeof listProfiles => require('./listProfiles');
const loadShow = (): typeof showProfile => require('./showProfile');
const loadRemove = (): typeof removeProfiles => require('./removeProfiles');

const ROLES: readonly CodecRole[] = ['encoder', 'decoder', 'downlinkDecoder'];

/** Adds `plantroom profiles import|list|show|remove`. */
export function addProfiles(program: Command): void {
  const group = program
    .command('profiles')
    .description('Manage LoRaWAN device profiles, imported from a copy of a public repository');
  addDataCommand(
    group,
    'import <folder>',
    'import a copy of lorawan-devices or chirpstack-device-profiles; unchanged profiles are not written, and no profile is removed',
  )
    .option('--vendor <id>', 'import only this vendor, by folder name; can be repeated', appendValue<string>)
    .addHelpText('after', '\nExample:\n  plantroom profiles import lorawan-devices --vendor acme')
    .action((folder: string, flags: ImportFlags) => loadImport().runImport(folder, flags));
  addDataCommand(group, 'list', 'list the imported models by brand and name')
    .option('--search <text>', 'only models whose brand or model contains this text, by id or name')
    .option('--brand <brand>', 'only this brand, by id or name')
    .option('--model <model>', 'only this model, by id or name')
    .option('--band <band>', 'only profiles for this band, for example EU868')
    .option('--ids', 'print one line per profile with its id, instead of one line per model')
    .addOption(new Option('--limit <count>', 'maximum number of models').argParser(parseCount).default(50))
    .action((flags: ListFlags) => loadList().runListProfiles(flags));
  addDataCommand(group, 'show <id>', 'show a profile and the number of devices that use it')
    .option('--codec', 'show only its codec, as one script')
    .addOption(
      new Option('--role <role>', 'with --codec: only the file for this role, exactly as the server runs it')
        .choices(ROLES)
        .implies({ codec: true }),
    )
    .action((id: string, flags: ShowFlags) => loadShow().runShow(id, flags));
  addDataCommand(
    group,
    'remove [ids...]',
    'remove profiles that no device uses, and the models and codecs that only they used',
  )
    .option('--brand <id>', 'remove all profiles of this brand')
    .option(
      '--source <name>',
      'remove all profiles from this repository, lorawan-devices or chirpstack-device-profiles; with --brand only those of the brand',
    )
    .action((ids: readonly string[], flags: RemoveFlags) => loadRemove().runRemove(ids, flags));
}

function parseCount(text: string): number {
  if (!/^[1-9]\d{0,5}$/.test(text)) throw new InvalidArgumentError('use a whole number from 1 to 999999');
  return Number(text);
}
