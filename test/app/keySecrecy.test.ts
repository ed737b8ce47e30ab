import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { inspect } from 'node:util';
import {
  CreateDigitalDeviceRequest,
  DigitalDeviceServiceClient,
  GetDigitalDeviceRequest,
} from '../../src/gen/digitaldevice/v2/digital_device_service';
import {
  AccessControlServiceClient,
  CreateApiKeyRequest,
  type CreateApiKeyResponse,
  GetApiKeyRequest,
  ListApiKeysRequest,
  ListAuditEventsRequest,
  RevokeApiKeyRequest,
  RotateApiKeyRequest,
  type RotateApiKeyResponse,
  UpdateApiKeyRequest,
} from '../../src/gen/organization_access_control/access_control_service';
import type { Database } from '../../src/database';
import { MIGRATIONS } from '../../src/database/migrations';
import { newKeyText } from '../../src/access/keys/apiKey';
import { plantroomHere } from '../support/commandInProcess';
import { call, callFails } from '../support/edge';
import { sqliteOnly } from '../support/engines';
import { startTestApp, type TestApp } from '../support/testApp';

/**
 * Reads everything that the database holds, as text. For SQLite this includes the bytes of its files with deleted data,
 * and the copies from before migrations.
 */
async function getContent(database: Database, folder: string): Promise<string> {
  const { knex, dialect } = database.db;
  const listed =
    dialect.name === 'sqlite'
      ? "select name from sqlite_master where type = 'table'"
      : "select table_name as name from information_schema.tables where table_schema = 'public'";
  const answer = (await knex.raw(listed)) as { name: string }[] | { rows: { name: string }[] };
  const tables = Array.isArray(answer) ? answer : answer.rows;
  const rows: unknown[] = [];
  for (const { name } of tables) rows.push(await knex(name).select('*'));
  const files =
    dialect.name === 'sqlite'
      ? readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter((file) => /^plantroom\.db|\.db$/.test(file))
      : [];
  return JSON.stringify(rows) + files.map((file) => readFileSync(join(folder, file), 'latin1')).join('');
}

describe.each(sqliteOnly())('the secret of a key on $name', (engine) => {
  let app: TestApp;
  let access: AccessControlServiceClient;
  let devices: DigitalDeviceServiceClient;
  beforeAll(async () => {
    app = await startTestApp(engine);
    access = app.client(AccessControlServiceClient);
    devices = app.client(DigitalDeviceServiceClient);
  });
  afterAll(async () => {
    await app.stop();
  });

  it('appears neither in the database nor in the log nor in the audit trail, wherever a caller puts it', async () => {
    const as = (key = app.key, others: Record<string, string> = {}): Record<string, string> => ({
      'x-api-key': key,
      'x-organization-id': app.organizationId,
      ...others,
    });
    const create = CreateApiKeyRequest.fromPartial({
      name: 'Door',
      scopes: ['api-keys:write', 'devices:read', 'devices:write'],
    });
    const { key, apiKey } = await call<CreateApiKeyRequest, CreateApiKeyResponse>(
      access.createApiKey.bind(access),
      create,
      as(app.key, { 'idempotency-key': '1' }),
    );
    expect(
      (
        await call<CreateApiKeyRequest, CreateApiKeyResponse>(
          access.createApiKey.bind(access),
          create,
          as(app.key, { 'idempotency-key': '1' }),
        )
      ).key,
    ).toBe(key); // it is stored, but no one else can read it
    const id = apiKey?.id ?? '';
    const rotated = await call<RotateApiKeyRequest, RotateApiKeyResponse>(
      access.rotateApiKey.bind(access),
      RotateApiKeyRequest.fromPartial({ id }),
      as(key, { 'idempotency-key': '2' }),
    );
    const unknown = newKeyText();
    const mistyped = `${unknown.slice(0, -1)}${unknown.endsWith('0') ? '1' : '0'}`;
    const secrets = [app.key, key, rotated.key, unknown, mistyped];
    await call(access.listApiKeys.bind(access), ListApiKeysRequest.fromPartial({}), as());

    for (const secret of secrets) {
      const get = devices.getDigitalDevice.bind(devices);
      // In its own field, for valid and invalid keys, and in other fields.
      await callFails(get, GetDigitalDeviceRequest.fromPartial({ id: 'no-such' }), as(secret));
      const own = await callFails(
        get,
        GetDigitalDeviceRequest.fromPartial({ id: secret }),
        as(app.key, { 'x-request-id': `for ${secret}` }),
      );
      expect(own.requestId).toMatch(/^[0-9a-f-]{36}$/);
      await callFails(get, GetDigitalDeviceRequest.fromPartial({ id: 'no-such', organizationId: secret }), as());
      await callFails(get, GetDigitalDeviceRequest.fromPartial({ id: 'no-such' }), {
        ...as(),
        'x-organization-id': secret,
      });
      await callFails(access.getApiKey.bind(access), GetApiKeyRequest.fromPartial({ id: secret }), as());
      await callFails(access.revokeApiKey.bind(access), RevokeApiKeyRequest.fromPartial({ id: secret }), as());
      await callFails(
        access.listAuditEvents.bind(access),
        ListAuditEventsRequest.fromPartial({ pageToken: secret, keyId: secret }),
        as(),
      );
      const wrong = await callFails(
        access.createApiKey.bind(access),
        CreateApiKeyRequest.fromPartial({
          name: secret,
          note: `key: ${secret}`,
          scopes: [secret.slice(0, 60)],
          connectionIds: [secret],
          ownerUserId: secret,
          restrictions: { deviceIds: [secret] },
          allowedAddresses: [secret],
        }),
        as(),
      );
      expect(wrong.fields).toEqual(expect.arrayContaining(['name', 'note', 'scopes[0]']));
      expect(
        (await callFails(access.updateApiKey.bind(access), UpdateApiKeyRequest.fromPartial({ id, note: secret }), as()))
          .fields,
      ).toEqual(['note']);
      await callFails(
        devices.createDigitalDevice.bind(devices),
        CreateDigitalDeviceRequest.fromPartial({
          name: 'Valve',
          physicalDevice: { connectionId: secret, clientDeviceId: 'c' },
        }),
        as(),
      );
    }
    await call(access.revokeApiKey.bind(access), RevokeApiKeyRequest.fromPartial({ id }), as());
    await callFails(
      devices.getDigitalDevice.bind(devices),
      GetDigitalDeviceRequest.fromPartial({ id: 'no-such' }),
      as(key),
    );

    // On the command line too, in place of every id and of the organization.
    const organization = ['--organization', app.organizationId];
    const words = (secret: string): string[][] => [
      ['roles', 'delete', secret, ...organization],
      ['roles', 'update', secret, '--name', 'x', ...organization],
      ['members', 'remove', secret, ...organization],
      ['members', 'update', secret, '--role', 'viewer', ...organization],
      ['keys', 'revoke', secret, ...organization],
      ['keys', 'rotate', secret, ...organization],
      ['keys', 'update', secret, '--note', 'x', ...organization],
      ['keys', 'revoke', id, '--organization', `typo-${secret}`],
      ['keys', 'rotate', id, '--organization', secret],
      ['keys', 'create', '--name', 'x', '--all-scopes', '--all-connections', '--owner', secret, ...organization],
      ['users', 'update', secret, '--name', 'x'],
      ['users', 'remove', secret, '--confirm', 'x'],
      ['organizations', 'create', '--name', 'x', '--owner', secret],
      ['organizations', 'delete', secret, '--confirm', secret],
      ['audit', 'list', '--organization', secret],
    ];
    const { url, dataDir } = app.database;
    for (const args of words(key)) {
      const { code, stdout } = await plantroomHere([
        ...args,
        '--data-dir',
        dataDir,
        ...(url === '' ? [] : ['--database-url', url]),
      ]);
      expect([args, code === 0, stdout]).toEqual([args, false, '']);
    }

    // The copies that a migration makes are checked too.
    const migrated = await app.database.open({
      migrations: [...MIGRATIONS, { name: '9999_nothing', up: async () => {}, down: async () => {} }],
    });
    await migrated.migrate();
    await migrated.close();
    if (engine.name === 'sqlite') expect(readdirSync(join(dataDir, 'backups'))).toHaveLength(1);

    const written =
      (await getContent(app.database.database, app.database.dataDir)) +
      inspect(app.log.lines, { depth: 20, maxArrayLength: null, maxStringLength: null });
    expect(written).toContain(key.slice(0, 10)); // asserts that something was checked
    expect(written).toContain('rpc.request');
    // The secret after the part that may be shown; a quarter of it identifies it.
    for (const secret of secrets)
      expect([secret.slice(0, 10), written.includes(secret.slice(10, 24))]).toEqual([secret.slice(0, 10), false]);
  });
});
