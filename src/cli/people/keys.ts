import type { Command } from 'commander';
import type { ApiKey } from '../../access';
import type { Core } from '../../app';
import { SCOPES } from '../../kernel/scopes';
import { notFound } from '../../kernel/errors';
import { UsageError } from '../exit';
import { withCore } from '../core';
import { note, showRecord, showTable, type OutputOptions } from '../output';
import { commaList, DATA_SETTINGS, duration, withConfig, withJson, type ConfigFlags } from '../options';
import { timeText } from './timeText';

interface CreateFlags extends ConfigFlags {
  readonly organization?: string;
  readonly name: string;
  readonly scopes?: string[];
  readonly allScopes?: boolean;
  readonly connections?: string[];
  readonly allConnections?: boolean;
  readonly owner?: string;
  /** Milliseconds from now. */
  readonly expiresIn?: number;
  readonly admin?: boolean;
}

interface KeyFlags extends ConfigFlags {
  readonly organization?: string;
}

const A_DAY = 24 * 60 * 60_000;

/** Adds `plantroom keys create|list|revoke|rotate`. */
export function addKeys(program: Command): void {
  const group = program.command('keys').description('the API keys');
  addCreate(group);
  keyCommand(group, 'list', 'list the keys of an organization, newest first, also the revoked and expired ones').action((flags: KeyFlags) => listKeys(flags));
  keyCommand(group, 'revoke <id>', 'end a key: at once for new calls (1 s in a running server), within 5 s for its open streams').action((id: string, flags: KeyFlags) => revokeKey(id, flags));
  keyCommand(group, 'rotate <id>', 'make a new key that does what the old one does, and let the old one end')
    .option('--grace <time>', 'how long the old key still works, for example 24h or 0', duration, A_DAY)
    .action((id: string, flags: KeyFlags & { grace: number }) => rotateKey(id, flags));
}

function addCreate(group: Command): void {
  keyCommand(group, 'create', 'create a key and show it, this once')
    .requiredOption('--name <name>', 'what it is for')
    .option('--scopes <scopes>', `what it may do, with commas between: ${SCOPES.join(', ')}`, commaList)
    .option('--all-scopes', 'every scope')
    .option('--connections <ids>', 'with gateways:write: the connections that gateway software may attach to', commaList)
    .option('--all-connections', 'with gateways:write: every gateway connection, also those made later')
    .option('--owner <id>', 'the person that it belongs to (default: the only one there is)')
    .option('--expires-in <time>', 'when it ends, for example 90d (default: never)', duration)
    .option('--admin', 'it may also create, list and delete organizations')
    .action((flags: CreateFlags) => createKey(flags));
}

function keyCommand(group: Command, name: string, description: string): Command {
  return withConfig(withJson(group.command(name).description(description)), DATA_SETTINGS).option('--organization <id>', 'the organization (default: the only one there is)');
}

async function createKey(flags: CreateFlags): Promise<void> {
  if ((flags.scopes === undefined) === (flags.allScopes !== true)) throw new UsageError('say what the key may do: either --scopes a,b or --all-scopes');
  const issued = await withCore(flags, async (core) => {
    const { id } = await core.organizations.pick(flags.organization);
    return await core.keys.create(id, {
      name: flags.name,
      scopes: flags.scopes ?? SCOPES,
      connectionIds: flags.connections ?? [],
      allConnections: flags.allConnections === true,
      ownerUserId: flags.owner,
      isAdmin: flags.admin === true,
      expiresAt: flags.expiresIn === undefined ? undefined : Date.now() + flags.expiresIn,
    });
  });
  showNewKey(issued, flags);
}

async function listKeys(flags: KeyFlags): Promise<void> {
  const keys = await withCore(flags, async (core) => await core.keys.list((await core.organizations.pick(flags.organization)).id));
  showTable(keys.map(keyShown), ['id', 'name', 'prefix', 'scopes', 'expiresAt', 'lastUsedAt', 'revokedAt'], flags);
}

async function revokeKey(id: string, flags: KeyFlags): Promise<void> {
  const key = await withCore(flags, async (core) => await core.keys.revoke(await organizationOfKey(core, id, flags), id));
  showRecord(keyShown(key), flags);
}

async function rotateKey(id: string, flags: KeyFlags & { grace: number }): Promise<void> {
  const issued = await withCore(flags, async (core) => await core.keys.rotate(await organizationOfKey(core, id, flags), id, flags.grace));
  showNewKey(issued, flags);
}

/** A key id is unique in the installation; without --organization it is looked for in all of them. */
async function organizationOfKey(core: Core, id: string, flags: KeyFlags): Promise<string> {
  if (flags.organization !== undefined) return flags.organization;
  for (const organization of await core.organizations.list()) {
    const keys = await core.keys.list(organization.id);
    if (keys.some((key) => key.id === id)) return organization.id;
  }
  throw notFound('api_key', id);
}

function showNewKey({ key, apiKey }: { key: string; apiKey: ApiKey }, output: OutputOptions): void {
  const { id, ...record } = keyShown(apiKey);
  showRecord({ id, key, ...record }, output);
  if (!output.json) note('\nKeep the key: it is not stored and cannot be shown again.');
}

function keyShown(key: ApiKey): Record<'id' | 'name' | 'prefix' | 'scopes' | 'expiresAt' | 'lastUsedAt' | 'revokedAt', unknown> & Record<string, unknown> {
  return { ...key, createdAt: timeText(key.createdAt), updatedAt: timeText(key.updatedAt), expiresAt: timeText(key.expiresAt), revokedAt: timeText(key.revokedAt), lastUsedAt: timeText(key.lastUsedAt) };
}
