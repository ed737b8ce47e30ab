import { status } from '@grpc/grpc-js';
import type { DigitalDevice, Image } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { newId } from '../../src/kernel/ids';
import { fromTimestamp } from '../../src/kernel/timestamps';
import { startDeviceRoom, type DeviceRoom } from '../support/deviceRoom';
import { engines } from '../support/engines';

describe.each(engines())('pictures of devices on $name', (engine) => {
  let room: DeviceRoom;
  beforeAll(async () => {
    room = await startDeviceRoom(engine);
  });
  beforeEach(() => room.clock.advance(1000));
  afterAll(async () => await room.stop());

  /** Rows of pictures that were uploaded. */
  async function media(count: number, organizationId = 'org-1'): Promise<[string, ...string[]]> {
    const now = room.clock.now();
    const rows = Array.from({ length: count }, (_, at) => ({
      id: newId(), organization_id: organizationId, sha256: `${at}`, filename: `${at}.png`, content_type: 'image/png', size_bytes: 70 + at, thumbnail_bytes: 40, width: 2, height: 1, created_at: now, unused_since: now,
    }));
    await room.test.database.db.knex('media').insert(rows);
    return rows.map(({ id }) => id) as [string, ...string[]];
  }

  const unusedSince = async (ids: readonly string[]): Promise<(number | null)[]> => {
    const rows = await room.test.database.db.knex<{ id: string; unused_since: number | null }>('media').whereIn('id', [...ids]);
    return ids.map((id) => rows.find((row) => row.id === id)?.unused_since ?? null);
  };

  it('shows what a picture is and where to get it, and is not in lists', async () => {
    const [id] = await media(1);
    const created = await room.api.create({ name: 'Pump', images: [{ mediaId: id, isCover: true }] });
    const [image] = created.images as [Image];
    expect(image).toMatchObject({ id, filename: '0.png', contentType: 'image/png', isCover: true, position: 0, sizeBytes: 70 });
    expect(fromTimestamp(image.createdAt!)).toBe(room.clock.now());
    for (const [link, variant] of [[image.url, 'original'], [image.thumbnailUrl, 'thumbnail']] as const) {
      const { origin, pathname, searchParams } = new URL(link);
      expect([origin, pathname]).toEqual(['https://plantroom.test', `/media/${id}`]);
      expect(room.links.open(id, searchParams)).toEqual({ organizationId: 'org-1', id, variant });
    }
    expect(await room.api.get({ id: created.id })).toEqual(created);
    expect((await room.api.list({ limit: 1 })).devices).toMatchObject([{ id: created.id, images: [] }]);
    expect(await unusedSince([id])).toEqual([null]);
  });

  it('orders them by position, then as they were listed; one without comes after those before it', async () => {
    const [a, b, c, d, e] = (await media(5)) as [string, string, string, string, string];
    const images = [{ mediaId: a }, { mediaId: b, position: 7 }, { mediaId: c }, { mediaId: d, position: 0 }, { mediaId: e }];
    const device = await room.api.create({ name: 'Ordered', images });
    expect(orderOf(device)).toEqual([[a, 0], [d, 0], [b, 7], [c, 8], [e, 9]]);
    const again = device.images.map(({ id, isCover, position }) => ({ mediaId: id, isCover, position }));
    expect((await room.api.update({ id: device.id, images: again })).images).toEqual(device.images);
  });

  it('places none where a request may not', async () => {
    const [a, b, c] = (await media(3)) as [string, string, string];
    const device = await room.api.create({ name: 'Full', images: [{ mediaId: a, position: 9999 }, { mediaId: b }, { mediaId: c }] });
    expect(orderOf(device)).toEqual([[a, 9999], [b, 9999], [c, 9999]]);
    const again = device.images.map(({ id, isCover, position }) => ({ mediaId: id, isCover, position }));
    expect((await room.api.update({ id: device.id, images: again })).images).toEqual(device.images);
  });

  it('replaces them all, leaves them, or removes them: a change of the device', async () => {
    const [a, b] = (await media(2)) as [string, string];
    const device = await room.api.create({ name: 'Changed', images: [{ mediaId: a }] });
    room.clock.advance(5);
    const replaced = await room.api.update({ id: device.id, images: [{ mediaId: b }] });
    expect(orderOf(replaced)).toEqual([[b, 0]]);
    expect(replaced.etag).toBe('"2"');
    expect(fromTimestamp(replaced.updatedAt!)).toBe(room.clock.now());
    expect(await unusedSince([a, b])).toEqual([room.clock.now(), null]);
    expect((await room.api.update({ id: device.id, name: 'Renamed' })).images).toEqual(replaced.images);
    expect(await room.api.update.fails({ id: device.id, images: [{ mediaId: a }], etag: device.etag })).toMatchObject({ code: status.ABORTED, reason: 'changed_meanwhile' });
    const cleared = await room.api.update({ id: device.id, clearImages: true });
    expect([cleared.images, cleared.etag]).toEqual([[], '"4"']);
    expect(await room.api.get({ id: device.id })).toEqual(cleared);
    expect(await unusedSince([a, b])).toEqual([room.clock.now(), room.clock.now()]);
  });

  it('answers them after a change of sensors and mappings too', async () => {
    const [id] = await media(1);
    const { id: deviceId } = await room.api.create({ name: 'Sensed', physicalDevice: { clientDeviceId: 'sensed', connectionId: room.connections[0] }, images: [{ mediaId: id }] });
    const device = await room.api.addSensors({ id: deviceId, sensorTemplateIds: [room.templates[0]] });
    const sensorId = device.sensors[0]?.id ?? '';
    const answers = [
      device,
      await room.api.setMappings({ id: deviceId, mappings: [{ sensorId, sourcePath: 'a' }] }),
      await room.api.updateSensor({ id: deviceId, sensorId, sensorTemplateId: room.templates[1] }),
      await room.api.removeSensors({ id: deviceId, sensorIds: [sensorId] }),
    ];
    for (const answer of answers) expect(orderOf(answer)).toEqual([[id, 0]]);
  });

  it('says all that is wrong at once and changes nothing', async () => {
    const [own] = await media(1);
    const [foreign] = await media(1, 'org-2');
    const images = [{ mediaId: own, isCover: true }, { mediaId: own, isCover: true }, { mediaId: foreign }, { mediaId: 'no-such' }, { mediaId: 'a\0b' }, { mediaId: '' }, { mediaId: newId(), position: -1 }];
    const wrong = ['images[1].isCover', 'images[1].mediaId', 'images[2].mediaId', 'images[3].mediaId', 'images[4].mediaId', 'images[5].mediaId', 'images[6].mediaId', 'images[6].position', 'name'];
    const before = (await room.api.list({ limit: 1 })).total;
    const refused = await room.api.create.fails({ name: ' ', images });
    expect(refused).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(refused.fields.toSorted()).toEqual(wrong);
    expect((await room.api.list({ limit: 1 })).total).toBe(before);
    const device = await room.api.create({ name: 'Right', images: [{ mediaId: own }] });
    expect((await room.api.update.fails({ id: device.id, name: ' ', images })).fields.toSorted()).toEqual(wrong);
    expect((await room.api.update.fails({ id: device.id, images: [{ mediaId: own }], clearImages: true })).fields).toEqual(['clearImages']);
    const together = await room.api.update.fails({ id: device.id, physicalDevice: { clientDeviceId: 'x' }, images: [{ mediaId: foreign }] });
    expect(together.fields.toSorted()).toEqual(['images[0].mediaId', 'physicalDevice.connectionId']);
    expect((await room.api.update.fails({ id: device.id, images: Array.from({ length: 51 }, () => ({ mediaId: newId() })) })).fields).toContain('images');
    expect(await room.api.get({ id: device.id })).toEqual(device);
  });

  it('finds a picture of another organization as little as one that never was', async () => {
    const [foreign] = await media(1, 'org-2');
    const device = await room.api.create({ name: 'Alone' });
    const told = async (mediaId: string): Promise<string> => JSON.stringify((await room.api.update.fails({ id: device.id, images: [{ mediaId }] })).violations).replaceAll(mediaId, 'ID');
    expect(await told(foreign)).toBe(await told(newId()));
    expect((await room.api.update.fails({ id: device.id, unbindPhysicalDevice: true, images: [{ mediaId: foreign }] })).fields).toEqual(['images[0].mediaId']);
    expect(await unusedSince([foreign])).not.toEqual([null]);
  });

  it('lets go of them when the device is deleted, less of those that another one shows', async () => {
    const [shared, alone] = (await media(2)) as [string, string];
    const [one, other] = [await room.api.create({ name: 'One', images: [{ mediaId: shared }, { mediaId: alone }] }), await room.api.create({ name: 'Other', images: [{ mediaId: shared, isCover: true }] })];
    room.clock.advance(7);
    await room.api.delete({ id: one.id });
    expect(await unusedSince([shared, alone])).toEqual([null, room.clock.now()]);
    expect(await room.api.get({ id: other.id })).toEqual(other);
    await room.api.delete({ id: other.id });
    expect(await unusedSince([shared])).toEqual([room.clock.now()]);
    expect(await room.test.database.db.knex('device_images').whereIn('media_id', [shared, alone])).toEqual([]);
  });

  it('keeps all of them when many devices take and drop the same ones at once', async () => {
    const ids = await media(4);
    const devices = await Promise.all(Array.from({ length: 6 }, async () => await room.api.create({ name: 'Many' })));
    const listed = (at: number) => (at % 2 ? ids : ids.toReversed()).map((mediaId) => ({ mediaId }));
    for (let round = 0; round < 3; round += 1) {
      await Promise.all(devices.map(async ({ id }, at) => await room.api.update(at === round ? { id, clearImages: true } : { id, images: listed(at + round) })));
      expect(await unusedSince(ids)).toEqual([null, null, null, null]);
    }
    await Promise.all(devices.map(async ({ id }) => await room.api.delete({ id })));
    expect(await unusedSince(ids)).toEqual(ids.map(() => room.clock.now()));
  });
});

function orderOf({ images }: DigitalDevice): [string, number][] {
  return images.map(({ id, position }) => [id, position]);
}
