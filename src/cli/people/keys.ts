import { type Command, Option } from 'commander';
import type { ApiKey, IssuedKey, KeyFromCommandLine } from '../../access';
import type { AdminContext } from '../../server';
import { SCOPES } from '../../kernel/scopes';
import { DomainError } from '../../kernel/errors';
import { DAY_MS } from '../../kernel/timeUnits';
import { withAdminContext } from '../core';
import { UsageError } from '../exit';
import { addDataCommand, parseCommaList, parseDuration } from '../options';
import { note, showRecord, showTable } from '../output';
import { openKeyFile } from './keyFile';
import {
  toKeyChange,
  findExpiry,
  listSetFields,
  findRestrictions,
  withKeyFileOption,
  withLimitOptions,
  type LimitFlags,
  type NewKeyFlags,
  type UpdateFlags,
} from './keyFlags';
import { toKeyRow, formatKey } from './keyShown';
import { getOrganizationId, withOrganization, type OrganizationFlags } from './organizationFlag';

interface CreateFlags extends LimitFlags, NewKeyFlags {
  readonly name: string;
  readonly scopes?: string[];
  readonly allScopes?: boolean;
  readonly connections?: string[];
  readonly allConnections?: boolean;
  readonly owner?: string;
  readonly admin?: boolean;
}

/** Adds `plantroom keys create|list|show|update|revoke|rotate`. */
export function addKeys(program: Command): void {
  const group = program.command('keys').description('Manage API keys');
  addCreate(group);
  addKeyCommand(
    group,
    'list',
    'List the API keys of an organization, newest first, including revoked and expired ones',
  ).action((flags: OrganizationFlags) => listKeys(flags));
  addKeyCommand(group, 'show <id>', 'Show the details of an API key').action((id: string, flags: OrganizationFlags) =>
    showKey(id, flags),
  );
  withLimitOptions(
    addKeyCommand(
      group,
      'update <id>',
      'Change an API key. It takes effect within 1 s for new calls and within 5 s for open streams.',
    ).option('--name <name>', 'New name'),
    'unchanged',
  )
    .option('--allow-any-address', 'The key may be used from any address')
    .option('--unlimited', 'Remove all limits to devices, connections and commands')
    .action((id: string, flags: UpdateFlags) => updateKey(id, flags));
  addKeyCommand(
    group,
    'revoke <id>',
    'Revoke an API key. New calls fail within 1 s; open streams close within 5 s.',
  ).action((id: string, flags: OrganizationFlags) => revokeKey(id, flags));
  withKeyFileOption(
    addKeyCommand(group, 'rotate <id>', 'Replace an API key. The old key stays valid for a grace period.'),
  )
    .addOption(
      new Option('--grace <time>', 'How long the old key stays valid, for example 12h or 0')
        .argParser(parseDuration)
        .default(DAY_MS, '24h'),
    )
    .action((id: string, flags: NewKeyFlags & { grace: number }) => rotateKey(id, flags));
}

/** Adds `plantroom keys create`. */
function addCreate(group: Command): void {
  const command = addKeyCommand(group, 'create', 'Create an API key. The key is shown only once.')
    .requiredOption('--name <name>', 'Name of the key, for example its purpose')
    .option('--scopes <scopes>', `Comma-separated scopes of the key: ${SCOPES.join(', ')}`, parseCommaList)
    .option('--all-scopes', 'All scopes')
    .option(
      '--connections <ids>',
      'With gateways:write: the connections that gateway software may attach to',
      parseCommaList,
    )
    .option('--all-connections', 'With gateways:write: all gateway connections, including those created later')
    .option('--owner <id>', 'Member that owns the key (default: the only owner of the organization)')
    .option('--admin', 'The key may also create, list and delete organizations');
  withKeyFileOption(withLimitOptions(command, 'never')).action((flags: CreateFlags) => createKey(flags));
}

/**
 * Adds a subcommand. One that names a key finds the organization of the key itself, see getOrganizationOfKey; the
 * others use the only organization or that of the environment.
 */
function addKeyCommand(group: Command, name: string, description: string): Command {
  const command = addDataCommand(group, name, description);
  return name.endsWith('<id>')
    ? command.option('--organization <id>', 'Organization id (default: the organization of the key)')
    : withOrganization(command);
}

/** Runs `plantroom keys create`. */
async function createKey(flags: CreateFlags): Promise<void> {
  const hasScopes = flags.scopes !== undefined;
  const hasAllScopes = flags.allScopes === true;
  if (hasScopes === hasAllScopes) throw new UsageError('use either --scopes a,b or --all-scopes');
  const input: KeyFromCommandLine = {
    name: flags.name,
    note: flags.note,
    scopes: flags.scopes ?? SCOPES,
    connectionIds: flags.connections ?? [],
    allConnections: flags.allConnections === true,
    restrictions: findRestrictions(flags),
    allowedAddresses: flags.allowFrom,
    ownerUserId: flags.owner,
    isAdmin: flags.admin === true,
    expiresAt: findExpiry(flags) ?? undefined,
  };
  await createAndShowKey(flags, async (admin) => {
    const { id } = await admin.organizations.getByIdOrOnly(getOrganizationId(flags));
    const change = { organizationId: id, resource: 'api-keys', fields: listSetFields(input) };
    return await admin.audit.recordChange(
      'keys create',
      change,
      async () => await admin.keys.create(id, input),
      ({ apiKey }) => `api-keys/${apiKey.id}`,
    );
  });
}

async function listKeys(flags: OrganizationFlags): Promise<void> {
  const keys = await withAdminContext(
    flags,
    async (admin) => await admin.keys.list((await admin.organizations.getByIdOrOnly(getOrganizationId(flags))).id),
  );
  if (flags.json) showTable(keys.map(formatKey), ['id'], flags);
  else
    showTable(
      keys.map((key) => toKeyRow(key, Date.now())),
      ['id', 'name', 'prefix', 'state', 'scopes', 'limits', 'expiresAt', 'lastUsedAt'],
      flags,
    );
}

async function showKey(id: string, flags: OrganizationFlags): Promise<void> {
  showRecord(
    formatKey(
      await withAdminContext(
        flags,
        async (admin) => await admin.keys.get(await getOrganizationOfKey(admin, id, flags), id),
      ),
    ),
    flags,
  );
}

async function updateKey(id: string, flags: UpdateFlags): Promise<void> {
  const change = toKeyChange(flags);
  const key = await runAudited(
    id,
    flags,
    'keys update',
    listSetFields(change),
    async (admin, organizationId) => await admin.keys.update(organizationId, id, change),
  );
  showRecord(formatKey(key), flags);
}

async function revokeKey(id: string, flags: OrganizationFlags): Promise<void> {
  showRecord(
    formatKey(
      await runAudited(
        id,
        flags,
        'keys revoke',
        [],
        async (admin, organizationId) => await admin.keys.revoke(organizationId, id),
      ),
    ),
    flags,
  );
}

/** Replaces a key. The resource in the audit event contains the ids of the old and of the new key. */
async function rotateKey(id: string, flags: NewKeyFlags & { grace: number }): Promise<void> {
  await createAndShowKey(flags, async (admin) => {
    const organizationId = await getOrganizationOfKey(admin, id, flags);
    return await admin.audit.recordChange(
      'keys rotate',
      { organizationId, resource: `api-keys/${id}`, fields: ['graceSeconds'] },
      async () => await admin.keys.rotate(organizationId, id, flags.grace),
      ({ apiKey: newKey }) => `api-keys/${id}/${newKey.id}`,
    );
  });
}

/**
 * Runs work on a key and records it in the audit trail of the organization of the key. `method`: the words of the
 * command. `fields`: the names of the changed fields.
 */
async function runAudited(
  keyId: string,
  flags: OrganizationFlags,
  method: string,
  fields: readonly string[],
  work: (admin: AdminContext, organizationId: string) => Promise<ApiKey>,
): Promise<ApiKey> {
  return await withAdminContext(flags, async (admin) => {
    const organizationId = await getOrganizationOfKey(admin, keyId, flags);
    return await admin.audit.recordChange(
      method,
      { organizationId, resource: `api-keys/${keyId}`, fields },
      async () => await work(admin, organizationId),
    );
  });
}

/**
 * Returns the organization of the flag or of the key. Key ids are unique in the installation, so without --organization
 * all organizations are searched, and the environment variable is ignored.
 */
async function getOrganizationOfKey(
  admin: AdminContext,
  keyId: string,
  { organization }: OrganizationFlags,
): Promise<string> {
  return organization === undefined
    ? await admin.keys.getOrganization(keyId)
    : (await admin.organizations.getByIdOrOnly(organization)).id;
}

/** Creates a key and shows it, or writes it to its file. If the file cannot be written, the key is revoked. */
async function createAndShowKey(
  flags: NewKeyFlags,
  create: (admin: AdminContext) => Promise<IssuedKey>,
): Promise<void> {
  const file = flags.keyFile === undefined ? undefined : openKeyFile(flags.keyFile);
  const { key, apiKey } = await withAdminContext(flags, async (admin) => {
    const issued = await create(admin);
    try {
      file?.writeKey(issued.key);
    } catch (error) {
      const { id, organizationId } = issued.apiKey;
      await admin.audit.recordChange(
        'keys revoke',
        { organizationId, resource: `api-keys/${id}` },
        async () => await admin.keys.revoke(organizationId, id),
      );
      throw new DomainError(
        'conflict',
        'key_file_not_writable',
        `cannot write the new key to ${flags.keyFile ?? ''} (${(error as NodeJS.ErrnoException).code ?? 'unknown'}), so it was revoked: free some disk space or choose another file`,
        { cause: error },
      );
    }
    return issued;
  }).catch((error: unknown) => {
    file?.discard();
    throw error;
  });
  const { id, ...record } = formatKey(apiKey);
  if (flags.keyFile !== undefined) return showRecord({ id, keyFile: flags.keyFile, ...record }, flags);
  showRecord({ id, key, ...record }, flags);
  if (!flags.json) note('\nSave the key now: it is not stored and cannot be shown again.');
}
