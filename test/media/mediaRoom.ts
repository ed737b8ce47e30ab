import type { ServiceError } from '@grpc/grpc-js';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { DownloadMediaRequest, MediaServiceClient, MediaServiceService, type DownloadMediaResponse, type Media } from '../../src/gen/media/v1/media_service';
import { newId } from '../../src/kernel/ids';
import { ImageRepository, mediaHandlers, MediaLinks, MediaService } from '../../src/media';
import type { UploadPart } from '../../src/media/incoming';
import type { MediaServiceOptions } from '../../src/media/mediaService';
import { answersOf, call, callFails, headers, MemoryLog, seen, startEdge, type SeenError } from '../support/edge';
import type { TestDatabase, TestEngine } from '../support/engines';
import { TestClock } from '../support/testClock';

/** How a picture is sent. */
export interface Sending {
  readonly filename?: string;
  /** The organization, which is also its key. */
  readonly as?: string;
  readonly chunkBytes?: number;
}

/** A server of the room media, with the organizations org-1 and org-2. */
export interface MediaRoom {
  readonly test: TestDatabase;
  readonly clock: TestClock;
  readonly log: MemoryLog;
  readonly service: MediaService;
  readonly links: MediaLinks;
  readonly client: MediaServiceClient;
  upload(bytes: Buffer, sending?: Sending): Promise<Media>;
  uploadFails(bytes: Buffer, sending?: Sending): Promise<SeenError>;
  get(id: string, as?: string): Promise<Media>;
  getFails(id: string, as?: string): Promise<SeenError>;
  delete(id: string, as?: string): Promise<unknown>;
  deleteFails(id: string, as?: string): Promise<SeenError>;
  /** All answers of a download. */
  download(id: string, fields?: Partial<DownloadMediaRequest>, as?: string): Promise<DownloadMediaResponse[]>;
  /** Makes a device of org-1. */
  device(): Promise<string>;
  /** Gives a device of org-1 these pictures. */
  show(deviceId: string, ids: readonly string[]): Promise<void>;
  /** The names of the files of pictures, without folders; in their places, or in the trash. */
  files(where?: 'place' | 'trash'): string[];
  /** What is in a folder of `media`. */
  names(folder: string): string[];
  /** Another service on the same files and rows, as after a restart; its clock is as the files' own. */
  restarted(overrides?: Partial<MediaServiceOptions>): MediaService;
  stop(): Promise<void>;
}

/** Starts such a server on a database of its own. */
export async function startMediaRoom(engine: TestEngine, overrides: Partial<MediaServiceOptions> = {}): Promise<MediaRoom> {
  const test = await engine.createDatabase();
  const { database, dataDir } = test;
  const clock = new TestClock(Date.now());
  const log = new MemoryLog();
  await database.db.knex('organizations').insert(['org-1', 'org-2'].map((id) => ({ id, name: id, name_folded: id, created_at: 0, updated_at: 0 })));
  const options = { database, dataDir, installationId: 'installation-1', clock, log, ...overrides };
  const service = new MediaService(options);
  await service.start();
  const links = new MediaLinks(Buffer.alloc(32, 7), () => 'https://plantroom.test:8443', clock);
  const edge = await startEdge((server) => server.add(MediaServiceService, mediaHandlers(service, links)));
  for (const organizationId of ['org-1', 'org-2']) edge.keys.add(organizationId, { organizationId });
  const client = edge.client(MediaServiceClient);
  const deleteMedia = client.deleteMedia.bind(client);
  const getMedia = client.getMedia.bind(client);
  return {
    test, clock, log, service, links, client,
    upload: async (bytes, sending) => {
      const answer = await sent(client, bytes, sending);
      if ('reason' in answer) throw new Error(`the upload failed: ${answer.message}`);
      return answer;
    },
    uploadFails: async (bytes, sending) => {
      const answer = await sent(client, bytes, sending);
      if ('reason' in answer) return answer;
      throw new Error(`the upload succeeded: ${JSON.stringify(answer)}`);
    },
    get: async (id, as = 'org-1') => await call(getMedia, { id, organizationId: '' }, keyOf(as)),
    getFails: async (id, as = 'org-1') => await callFails(getMedia, { id, organizationId: '' }, keyOf(as)),
    delete: async (id, as = 'org-1') => await call(deleteMedia, { id, organizationId: '' }, keyOf(as)),
    deleteFails: async (id, as = 'org-1') => await callFails(deleteMedia, { id, organizationId: '' }, keyOf(as)),
    download: async (id, fields = {}, as = 'org-1') => await all(answersOf(client.downloadMedia(DownloadMediaRequest.fromPartial({ id, ...fields }), headers(keyOf(as))))),
    device: async () => await makeDevice(test),
    show: async (deviceId, ids) => await database.transaction(async (db) => await new ImageRepository(db).set('org-1', deviceId, ids.map((mediaId) => ({ mediaId, isCover: false, position: undefined })), clock.now())),
    files: (where = 'place') => filesIn(join(dataDir, 'media')).filter(({ isTrash }) => isTrash === (where === 'trash')).map(({ name }) => name),
    names: (folder) => (existsSync(join(dataDir, 'media', folder)) ? readdirSync(join(dataDir, 'media', folder)) : []),
    restarted: (overrides) => new MediaService({ ...options, clock: new TestClock(Date.now()), ...overrides }),
    stop: async () => {
      await service.stop();
      await edge.stop();
      await test.drop();
    },
  };
}

function filesIn(folder: string): { name: string; isTrash: boolean }[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile() && entry.name !== 'installation');
  return entries.map(({ name, parentPath }) => ({ name, isTrash: parentPath.startsWith(join(folder, 'trash')) }));
}

/** An upload that arrives at once. */
export async function* partsOf(chunk: Uint8Array): AsyncGenerator<UploadPart> {
  yield await Promise.resolve({ chunk });
}

/** All that comes. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const taken: T[] = [];
  for await (const item of items) taken.push(item);
  return taken;
}

/** What an organization of the room calls with. */
export function keyOf(organizationId: string): Record<string, string> {
  return { 'x-api-key': organizationId, 'x-organization-id': organizationId };
}

async function sent(client: MediaServiceClient, bytes: Buffer, { filename, as = 'org-1', chunkBytes = 1024 * 1024 }: Sending = {}): Promise<Media | SeenError> {
  return await new Promise((resolve) => {
    const stream = client.uploadMedia(headers(keyOf(as)), (error: ServiceError | null, answer: Media) => resolve(error ? seen(error) : answer));
    stream.on('error', () => {}); // the callback is told
    if (filename !== undefined) stream.write({ organizationId: '', filename, chunk: Buffer.alloc(0) });
    for (let at = 0; at < bytes.length; at += chunkBytes) stream.write({ organizationId: '', filename: undefined, chunk: bytes.subarray(at, at + chunkBytes) });
    stream.end();
  });
}

async function makeDevice({ database }: TestDatabase): Promise<string> {
  const id = newId();
  await database.db.knex('digital_devices').insert({ id, organization_id: 'org-1', name: id, name_folded: id, revision: 1, seen_hour: 0, created_at: 0, updated_at: 0 });
  return id;
}
