import { type Command, Option } from 'commander';
import type { ApiKey, IssuedKey, KeyFromCommandLine } from '../../access';
import type { Core } from '../../app';
import { SCOPES } from '../../kernel/scopes';
import { DomainError } from '../../kernel/errors';
import { withCore } from '../core';
import { UsageError } from '../exit';
import { commaList, DATA_SETTINGS, duration, withConfig, withJson } from '../options';
import { note, showRecord, showTable } from '../output';
import { openKeyFile } from './keyFile';
import { changeOf, expiryOf, fieldsOf, restrictionsOf, withKeyFile, withLimits, type LimitFlags, type NewKeyFlags, type UpdateFlags } from './keyFlags';
import { keyRow, keyShown } from './keyShown';
import { namedOrganization, withOrganization, type OrganizationFlags } from './organizationFlag';

interface CreateFlags extends LimitFlags, NewKeyFlags {
  readonly name: string;
  readonly scopes?: string[];
  readonly allScopes?: boolean;
  readonly connections?: string[];
  readonly allConnections?: boolean;
  readonly owner?: string;
  readonly admin?: boolean;
}

const A_DAY = 24 * 60 * 60_000;

/** Adds `plantroom keys create|list|show|update|revoke|rotate`. */
export function addKeys(program: Command): void {
  const group = program.command('keys').description('the API keys');
  addCreate(group);
  keyCommand(group, 'list', 'list the keys of an organization, newest first, also the revoked and expired ones').action((flags: OrganizationFlags) => listKeys(flags));
  keyCommand(group, 'show <id>', 'show what is kept of a key').action((id: string, flags: OrganizationFlags) => showKey(id, flags));
  withLimits(keyCommand(group, 'update <id>', 'change a key: at once for new calls (1 s in a running server), within 5 s for its open streams').option('--name <name>', 'another name'), 'as it is')
    .option('--allow-from-anywhere', 'it may be used from every address')
    .option('--unlimited', 'it is limited to no devices and no commands any more')
    .action((id: string, flags: UpdateFlags) => updateKey(id, flags));
  keyCommand(group, 'revoke <id>', 'end a key: at once for new calls (1 s in a running server), within 5 s for its open streams').action((id: string, flags: OrganizationFlags) => revokeKey(id, flags));
  withKeyFile(keyCommand(group, 'rotate <id>', 'make a new key that does what the old one does, and let the old one end'))
    .addOption(new Option('--grace <time>', 'how long the old key still works, for example 12h or 0').argParser(duration).default(A_DAY, '24h'))
    .action((id: string, flags: NewKeyFlags & { grace: number }) => rotateKey(id, flags));
}

function addCreate(group: Command): void {
  const command = keyCommand(group, 'create', 'create a key and show it, this once')
    .requiredOption('--name <name>', 'what it is for')
    .option('--scopes <scopes>', `what it may do, with commas between: ${SCOPES.join(', ')}`, commaList)
    .option('--all-scopes', 'every scope')
    .option('--connections <ids>', 'with gateways:write: the connections that gateway software may attach to', commaList)
    .option('--all-connections', 'with gateways:write: every gateway connection, also those made later')
    .option('--owner <id>', 'the member that it belongs to (default: the only one there is)')
    .option('--admin', 'it may also create, list and delete organizations');
  withKeyFile(withLimits(command, 'never')).action((flags: CreateFlags) => createKey(flags));
}

function keyCommand(group: Command, name: string, description: string): Command {
  const command = withConfig(withJson(group.command(name).description(description)), DATA_SETTINGS);
  return name.endsWith('<id>') ? command.option('--organization <id>', 'the organization (default: that of the key)') : withOrganization(command);
}

async function createKey(flags: CreateFlags): Promise<void> {
  if ((flags.scopes === undefined) === (flags.allScopes !== true)) throw new UsageError('say what the key may do: either --scopes a,b or --all-scopes');
  const wanted: KeyFromCommandLine = {
    name: flags.name,
    note: flags.note,
    scopes: flags.scopes ?? SCOPES,
    connectionIds: flags.connections ?? [],
    allConnections: flags.allConnections === true,
    restrictions: restrictionsOf(flags),
    allowedAddresses: flags.allowFrom,
    ownerUserId: flags.owner,
    isAdmin: flags.admin === true,
    expiresAt: expiryOf(flags) ?? undefined,
  };
  await makeKey(flags, async (core) => {
    const { id } = await core.organizations.pick(namedOrganization(flags));
    const change = { organizationId: id, resource: 'api-keys', fields: fieldsOf(wanted) };
    return await core.audit.change('keys create', change, async () => await core.keys.create(id, wanted), ({ apiKey }) => `api-keys/${apiKey.id}`);
  });
}

async function listKeys(flags: OrganizationFlags): Promise<void> {
  const keys = await withCore(flags, async (core) => await core.keys.list((await core.organizations.pick(namedOrganization(flags))).id));
  if (flags.json) showTable(keys.map(keyShown), ['id'], flags);
  else showTable(keys.map((key) => keyRow(key, Date.now())), ['id', 'name', 'prefix', 'state', 'scopes', 'limits', 'expiresAt', 'lastUsedAt'], flags);
}

async function showKey(id: string, flags: OrganizationFlags): Promise<void> {
  showRecord(keyShown(await withCore(flags, async (core) => await core.keys.get(await organizationOf(core, id, flags), id))), flags);
}

async function updateKey(id: string, flags: UpdateFlags): Promise<void> {
  const change = changeOf(flags);
  const key = await changing(id, flags, 'keys update', fieldsOf(change), async (core, organizationId) => await core.keys.update(organizationId, id, change));
  showRecord(keyShown(key), flags);
}

async function revokeKey(id: string, flags: OrganizationFlags): Promise<void> {
  showRecord(keyShown(await changing(id, flags, 'keys revoke', [], async (core, organizationId) => await core.keys.revoke(organizationId, id))), flags);
}

async function rotateKey(id: string, flags: NewKeyFlags & { grace: number }): Promise<void> {
  await makeKey(flags, async (core) => {
    const organizationId = await organizationOf(core, id, flags);
    return await core.audit.change('keys rotate', { organizationId, resource: `api-keys/${id}`, fields: ['graceSeconds'] }, async () => await core.keys.rotate(organizationId, id, flags.grace), ({ apiKey }) => `api-keys/${id}/${apiKey.id}`);
  });
}

async function changing(id: string, flags: OrganizationFlags, method: string, fields: readonly string[], work: (core: Core, organizationId: string) => Promise<ApiKey>): Promise<ApiKey> {
  return await withCore(flags, async (core) => {
    const organizationId = await organizationOf(core, id, flags);
    return await core.audit.change(method, { organizationId, resource: `api-keys/${id}`, fields }, async () => await work(core, organizationId));
  });
}

/** A key id is unique in the installation; without --organization it is looked for in all of them, whatever the variable says. */
async function organizationOf(core: Core, id: string, { organization }: OrganizationFlags): Promise<string> {
  return organization === undefined ? await core.keys.organizationOf(id) : (await core.organizations.pick(organization)).id;
}

/** Makes a key and shows it, or keeps it in its file: a key that cannot be kept is revoked. */
async function makeKey(flags: NewKeyFlags, make: (core: Core) => Promise<IssuedKey>): Promise<void> {
  const file = flags.keyFile === undefined ? undefined : openKeyFile(flags.keyFile);
  const { key, apiKey } = await withCore(flags, async (core) => {
    const issued = await make(core);
    try {
      file?.keep(issued.key);
    } catch (error) {
      const { id, organizationId } = issued.apiKey;
      await core.audit.change('keys revoke', { organizationId, resource: `api-keys/${id}` }, async () => await core.keys.revoke(organizationId, id));
      throw new DomainError('conflict', 'key_file_not_writable', `the new key could not be written to ${flags.keyFile ?? ''} (${(error as NodeJS.ErrnoException).code ?? 'unknown'}) and was revoked again; make room or name another file`, { cause: error });
    }
    return issued;
  }).catch((error: unknown) => {
    file?.discard();
    throw error;
  });
  const { id, ...record } = keyShown(apiKey);
  if (flags.keyFile !== undefined) return showRecord({ id, keyFile: flags.keyFile, ...record }, flags);
  showRecord({ id, key, ...record }, flags);
  if (!flags.json) note('\nKeep the key: it is not stored and cannot be shown again.');
}
