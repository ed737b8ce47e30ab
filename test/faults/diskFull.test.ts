import { statSync } from 'node:fs';
import { join } from 'node:path';
import { ResultOutcome, UplinkOutcome } from '../../src/gen/gateway/v1/gateway_service';
import { waitUntil } from '../support/waitUntil';
import { COMMANDS, DEVICES, getId, getReason, type Site, startSite } from './site';
import { canMount, SmallDisk } from './smallDisk';

const MIB = 1024 * 1024;

(canMount('inMemory') ? describe : describe.skip)('on a full disk (needs root and the right to mount)', () => {
  let disk: SmallDisk;
  let site: Site;
  let dataDir: string;
  beforeAll(async () => {
    disk = SmallDisk.inMemory(24);
    dataDir = join(disk.root, 'data');
    site = await startSite(dataDir, { flags: { 'database.diskReserveMib': '4' } });
  });
  afterAll(async () => {
    await site.stop();
    disk.remove();
  });

  const reserve = (): number => statSync(join(dataDir, '.reserve'), { throwIfNoEntry: false })?.blocks ?? 0;
  const reserveIs = async (bytes: number): Promise<void> => await waitUntil(() => reserve() * 512 === bytes);
  const create = async (name: string) => await site.call(`${DEVICES}/CreateDigitalDevice`, { name });
  const execution = async (executionId: string) => (await site.call(`${COMMANDS}/GetExecution`, { executionId })).json;

  it('rejects what grows, finishes running work, cleans up, and continues automatically', async () => {
    const { connectionId, deviceId, commandId } = await site.createTarget();
    const spare = getId(await create('Spare'));
    const gateway = site.openGateway();
    await gateway.attach({ connectionId });
    const executionId = String(
      (await site.call(`${COMMANDS}/ExecuteCommand`, { id: deviceId, commandId })).json['executionId'],
    );
    await gateway.next('command');
    await reserveIs(4 * MIB);

    disk.fill();
    let refused = await create('One of many');
    for (let count = 0; getReason(refused) === '' && count < 500; count += 1)
      refused = await create(`One of many ${count}`);
    expect(refused).toMatchObject({ status: 503, headers: { 'retry-after': '10' } });
    expect(getReason(refused)).toBe('storage_full');
    expect(site.log.of('disk.full')).toHaveLength(1);
    expect(site.log.of('disk.reserve_released')).toEqual([{ bytes: 4 * MIB }]);
    expect(reserve()).toBe(0);

    // What grows is rejected although there is space again, and reads are answered.
    expect(getReason(await create('Another'))).toBe('storage_full');
    expect(getReason(await site.call(`${COMMANDS}/ExecuteCommand`, { id: deviceId, commandId }))).toBe('storage_full');
    expect((await site.call(`${COMMANDS}/ListExecutions`, { id: deviceId })).json['items']).toHaveLength(1);
    // Running work finishes, although earlier uplinks are not accepted: those stay with the gateway.
    gateway.uplink('while-full');
    gateway.uplink('while-full-too');
    gateway.result(executionId);
    expect(await gateway.next('commandResultAck')).toMatchObject({
      executionId,
      outcome: ResultOutcome.RESULT_OUTCOME_APPLIED,
    });
    expect(await execution(executionId)).toMatchObject({ state: 'accepted_no_l4' });

    // Deletions succeed.
    expect((await site.call(`${DEVICES}/DeleteDigitalDevice`, { id: spare })).status).toBe(200);
    expect((await site.call(`${DEVICES}/GetDigitalDevice`, { id: spare })).status).toBe(404);

    disk.free();
    await site.log.until('disk.recovered');
    await reserveIs(4 * MIB);
    getId(await create('Afterwards'));
    // The gateway is asked once to reconnect and send them again.
    expect(await gateway.next('uplinkAck')).toMatchObject({
      uplinkId: 'while-full',
      outcome: UplinkOutcome.UPLINK_OUTCOME_STORED,
    });
    expect(await gateway.ended).toMatchObject({ reason: 'storage_full' });
    expect(site.log.of('gateway.uplinks_paused')).toHaveLength(1);
    expect(site.log.of('gateway.message_failed')).toEqual([]);
    const again = site.openGateway();
    await again.attach({ connectionId });
    again.uplink('while-full-too');
    expect(await again.next('uplinkAck')).toMatchObject({
      uplinkId: 'while-full-too',
      outcome: UplinkOutcome.UPLINK_OUTCOME_STORED,
    });
    again.cancel();
  });

  it('does not prevent the server from starting again', async () => {
    const { key } = site;
    await site.stop();
    disk.fill();
    site = await startSite(dataDir, { key, flags: { 'database.diskReserveMib': '4' } });
    expect((await site.call(`${DEVICES}/ListDigitalDevices`, {})).status).toBe(200);
    expect(getReason(await create('While full'))).toBe('storage_full');
    disk.free();
    await site.log.until('disk.recovered');
    getId(await create('After the start'));
  });
});
