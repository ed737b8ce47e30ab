import { status } from '@grpc/grpc-js';
import type { DigitalDevice, Image } from '../../src/gen/digitaldevice/v2/digital_device_service';
import { newId } from '../../src/kernel/ids';
import { fromTimestamp } from '../../src/kernel/timestamps';
import { startDeviceFixture, type DeviceFixture } from '../support/deviceFixture';
import { engines } from '../support/engines';

describe.each(engines())('device images on $name', (engine) => {
  let fixture: DeviceFixture;
  beforeAll(async () => {
    fixture = await startDeviceFixture(engine);
  });
  beforeEach(() => fixture.clock.advance(1000));
  afterAll(async () => await fixture.stop());

  /** Inserts rows of uploaded images. */
  async function media(count: number, organizationId = 'org-1'): Promise<[string, ...string[]]> {
    const now = fixture.clock.now();
    const rows = Array.from({ length: count }, (_, at) => ({
      id: newId(),
      organization_id: organizationId,
      sha256: `${at}`,
      filename: `${at}.png`,
      content_type: 'image/png',
      size_bytes: 70 + at,
      thumbnail_bytes: 40,
      width: 2,
      height: 1,
      created_at: now,
      unused_since: now,
    }));
    await fixture.test.database.db.knex('media').insert(rows);
    return rows.map(({ id }) => id) as [string, ...string[]];
  }

  const unusedSince = async (ids: readonly string[]): Promise<(number | null)[]> => {
    const rows = await fixture.test.database.db
      .knex<{ id: string; unused_since: number | null }>('media')
      .whereIn('id', [...ids]);
    return ids.map((id) => rows.find((row) => row.id === id)?.unused_since ?? null);
  };

  it('returns an image with its facts and link on the device, and omits images from lists', async () => {
    const [id] = await media(1);
    const created = await fixture.api.create({ name: 'Pump', images: [{ mediaId: id, isCover: true }] });
    const [image] = created.images as [Image];
    expect(image).toMatchObject({
      id,
      filename: '0.png',
      contentType: 'image/png',
      isCover: true,
      position: 0,
      sizeBytes: 70,
    });
    expect(fromTimestamp(image.createdAt!)).toBe(fixture.clock.now());
    for (const [link, variant] of [
      [image.url, 'original'],
      [image.thumbnailUrl, 'thumbnail'],
    ] as const) {
      const { origin, pathname, searchParams } = new URL(link);
      expect([origin, pathname]).toEqual(['https://plantroom.test', `/media/${id}`]);
      expect(fixture.links.open(id, searchParams)).toEqual({ organizationId: 'org-1', id, variant });
    }
    expect(await fixture.api.get({ id: created.id })).toEqual(created);
    expect((await fixture.api.list({ limit: 1 })).devices).toMatchObject([{ id: created.id, images: [] }]);
    expect(await unusedSince([id])).toEqual([null]);
  });

  it('orders images by position, then by request order; an image without a position follows the ones before it', async () => {
    const [a, b, c, d, e] = (await media(5)) as [string, string, string, string, string];
    const images = [
      { mediaId: a },
      { mediaId: b, position: 7 },
      { mediaId: c },
      { mediaId: d, position: 0 },
      { mediaId: e },
    ];
    const device = await fixture.api.create({ name: 'Ordered', images });
    expect(getOrder(device)).toEqual([
      [a, 0],
      [d, 0],
      [b, 7],
      [c, 8],
      [e, 9],
    ]);
    const again = device.images.map(({ id, isCover, position }) => ({ mediaId: id, isCover, position }));
    expect((await fixture.api.update({ id: device.id, images: again })).images).toEqual(device.images);
  });

  it('gives images after the maximum position that same position', async () => {
    const [a, b, c] = (await media(3)) as [string, string, string];
    const device = await fixture.api.create({
      name: 'Full',
      images: [{ mediaId: a, position: 9999 }, { mediaId: b }, { mediaId: c }],
    });
    expect(getOrder(device)).toEqual([
      [a, 9999],
      [b, 9999],
      [c, 9999],
    ]);
    const again = device.images.map(({ id, isCover, position }) => ({ mediaId: id, isCover, position }));
    expect((await fixture.api.update({ id: device.id, images: again })).images).toEqual(device.images);
  });

  it('replaces, keeps or removes all images as one change of the device', async () => {
    const [a, b] = (await media(2)) as [string, string];
    const device = await fixture.api.create({ name: 'Changed', images: [{ mediaId: a }] });
    fixture.clock.advance(5);
    const replaced = await fixture.api.update({ id: device.id, images: [{ mediaId: b }] });
    expect(getOrder(replaced)).toEqual([[b, 0]]);
    expect(replaced.etag).toBe('"2"');
    expect(fromTimestamp(replaced.updatedAt!)).toBe(fixture.clock.now());
    expect(await unusedSince([a, b])).toEqual([fixture.clock.now(), null]);
    expect((await fixture.api.update({ id: device.id, name: 'Renamed' })).images).toEqual(replaced.images);
    expect(
      await fixture.api.update.fails({ id: device.id, images: [{ mediaId: a }], etag: device.etag }),
    ).toMatchObject({
      code: status.ABORTED,
      reason: 'version_conflict',
    });
    const cleared = await fixture.api.update({ id: device.id, clearImages: true });
    expect([cleared.images, cleared.etag]).toEqual([[], '"4"']);
    expect(await fixture.api.get({ id: device.id })).toEqual(cleared);
    expect(await unusedSince([a, b])).toEqual([fixture.clock.now(), fixture.clock.now()]);
  });

  it('returns images after a change of sensors and mappings', async () => {
    const [id] = await media(1);
    const { id: deviceId } = await fixture.api.create({
      name: 'Sensed',
      physicalDevice: { clientDeviceId: 'sensed', connectionId: fixture.connections[0] },
      images: [{ mediaId: id }],
    });
    const device = await fixture.api.addSensors({ id: deviceId, sensorTemplateIds: [fixture.templates[0]] });
    const sensorId = device.sensors[0]?.id ?? '';
    const answers = [
      device,
      await fixture.api.setMappings({ id: deviceId, mappings: [{ sensorId, sourcePath: 'a' }] }),
      await fixture.api.updateSensor({ id: deviceId, sensorId, sensorTemplateId: fixture.templates[1] }),
      await fixture.api.removeSensors({ id: deviceId, sensorIds: [sensorId] }),
    ];
    for (const answer of answers) expect(getOrder(answer)).toEqual([[id, 0]]);
  });

  it('reports all violations together and changes nothing', async () => {
    const [own] = await media(1);
    const [foreign] = await media(1, 'org-2');
    const images = [
      { mediaId: own, isCover: true },
      { mediaId: own, isCover: true },
      { mediaId: foreign },
      { mediaId: 'no-such' },
      { mediaId: 'a\0b' },
      { mediaId: '' },
      { mediaId: newId(), position: -1 },
    ];
    const wrong = [
      'images[1].isCover',
      'images[1].mediaId',
      'images[2].mediaId',
      'images[3].mediaId',
      'images[4].mediaId',
      'images[5].mediaId',
      'images[6].mediaId',
      'images[6].position',
      'name',
    ];
    const before = (await fixture.api.list({ limit: 1 })).total;
    const refused = await fixture.api.create.fails({ name: ' ', images });
    expect(refused).toMatchObject({ code: status.INVALID_ARGUMENT, reason: 'validation_failed' });
    expect(refused.fields.toSorted()).toEqual(wrong);
    expect((await fixture.api.list({ limit: 1 })).total).toBe(before);
    const device = await fixture.api.create({ name: 'Right', images: [{ mediaId: own }] });
    expect((await fixture.api.update.fails({ id: device.id, name: ' ', images })).fields.toSorted()).toEqual(wrong);
    expect(
      (await fixture.api.update.fails({ id: device.id, images: [{ mediaId: own }], clearImages: true })).fields,
    ).toEqual(['clearImages']);
    const together = await fixture.api.update.fails({
      id: device.id,
      physicalDevice: { clientDeviceId: 'x' },
      images: [{ mediaId: foreign }],
    });
    expect(together.fields.toSorted()).toEqual(['images[0].mediaId', 'physicalDevice.connectionId']);
    expect(
      (
        await fixture.api.update.fails({
          id: device.id,
          images: Array.from({ length: 51 }, () => ({ mediaId: newId() })),
        })
      ).fields,
    ).toContain('images');
    expect(await fixture.api.get({ id: device.id })).toEqual(device);
  });

  it('reports an image of another organization as not found, like one that never existed', async () => {
    const [foreign] = await media(1, 'org-2');
    const device = await fixture.api.create({ name: 'Alone' });
    const getViolationText = async (mediaId: string): Promise<string> =>
      JSON.stringify((await fixture.api.update.fails({ id: device.id, images: [{ mediaId }] })).violations).replaceAll(
        mediaId,
        'ID',
      );
    expect(await getViolationText(foreign)).toBe(await getViolationText(newId()));
    expect(
      (await fixture.api.update.fails({ id: device.id, unbindPhysicalDevice: true, images: [{ mediaId: foreign }] }))
        .fields,
    ).toEqual(['images[0].mediaId']);
    expect(await unusedSince([foreign])).not.toEqual([null]);
  });

  it('releases images when the device is deleted, except those used by another device', async () => {
    const [shared, alone] = (await media(2)) as [string, string];
    const [one, other] = [
      await fixture.api.create({ name: 'One', images: [{ mediaId: shared }, { mediaId: alone }] }),
      await fixture.api.create({ name: 'Other', images: [{ mediaId: shared, isCover: true }] }),
    ];
    fixture.clock.advance(7);
    await fixture.api.delete({ id: one.id });
    expect(await unusedSince([shared, alone])).toEqual([null, fixture.clock.now()]);
    expect(await fixture.api.get({ id: other.id })).toEqual(other);
    await fixture.api.delete({ id: other.id });
    expect(await unusedSince([shared])).toEqual([fixture.clock.now()]);
    expect(await fixture.test.database.db.knex('device_images').whereIn('media_id', [shared, alone])).toEqual([]);
  });

  it('keeps every image when many devices attach and detach the same ones in parallel', async () => {
    const ids = await media(4);
    const devices = await Promise.all(
      Array.from({ length: 6 }, async () => await fixture.api.create({ name: 'Many' })),
    );
    const listed = (at: number) => (at % 2 ? ids : ids.toReversed()).map((mediaId) => ({ mediaId }));
    for (let round = 0; round < 3; round += 1) {
      await Promise.all(
        devices.map(
          async ({ id }, at) =>
            await fixture.api.update(at === round ? { id, clearImages: true } : { id, images: listed(at + round) }),
        ),
      );
      expect(await unusedSince(ids)).toEqual([null, null, null, null]);
    }
    await Promise.all(devices.map(async ({ id }) => await fixture.api.delete({ id })));
    expect(await unusedSince(ids)).toEqual(ids.map(() => fixture.clock.now()));
  });
});

function getOrder({ images }: DigitalDevice): [string, number][] {
  return images.map(({ id, position }) => [id, position]);
}
