import type { ServiceError } from '@grpc/grpc-js';
import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import {
  DownloadMediaRequest,
  MediaServiceClient,
  MediaServiceService,
  type DownloadMediaResponse,
  type Media,
} from '../../src/gen/media/v1/media_service';
import { newId } from '../../src/kernel/ids';
import { ImageRepository, mediaHandlers, MediaLinks, MediaService } from '../../src/media';
import type { UploadPart } from '../../src/media/uploadReceiver';
import type { MediaServiceOptions } from '../../src/media/mediaService';
import {
  listAnswers,
  call,
  callFails,
  headers,
  MemoryLog,
  parseError,
  startEdge,
  type GrpcErrorInfo,
} from '../support/edge';
import type { TestDatabase, TestEngine } from '../support/engines';
import { TestClock } from '../support/testClock';

/** Options of an upload. */
export interface UploadOptions {
  readonly filename?: string;
  /** The organization, which is also its key. */
  readonly as?: string;
  readonly chunkBytes?: number;
}

/** A server of the media module, with the organizations org-1 and org-2. */
export interface MediaFixture {
  readonly test: TestDatabase;
  readonly clock: TestClock;
  readonly log: MemoryLog;
  readonly service: MediaService;
  readonly links: MediaLinks;
  readonly client: MediaServiceClient;
  upload(bytes: Buffer, options?: UploadOptions): Promise<Media>;
  uploadFails(bytes: Buffer, options?: UploadOptions): Promise<GrpcErrorInfo>;
  get(id: string, as?: string): Promise<Media>;
  getFails(id: string, as?: string): Promise<GrpcErrorInfo>;
  delete(id: string, as?: string): Promise<unknown>;
  deleteFails(id: string, as?: string): Promise<GrpcErrorInfo>;
  /** Returns all messages of a download. */
  download(id: string, fields?: Partial<DownloadMediaRequest>, as?: string): Promise<DownloadMediaResponse[]>;
  /** Creates a device of org-1. */
  createDevice(): Promise<string>;
  /** Assigns these images to a device of org-1. */
  assignImages(deviceId: string, ids: readonly string[]): Promise<void>;
  /** Lists the names of the image files without folders, either in their places or in the trash. */
  files(where?: 'place' | 'trash'): string[];
  /** Lists the content of a folder of `media`. */
  names(folder: string): string[];
  /** Creates another service on the same files and rows, as after a restart. Its clock matches that of the files. */
  restart(overrides?: Partial<MediaServiceOptions>): MediaService;
  stop(): Promise<void>;
}

/** Starts such a server on its own database. */
export async function startMediaFixture(
  engine: TestEngine,
  overrides: Partial<MediaServiceOptions> = {},
): Promise<MediaFixture> {
  const test = await engine.createDatabase();
  const { database, dataDir } = test;
  const clock = new TestClock(Date.now());
  const log = new MemoryLog();
  await database.db
    .knex('organizations')
    .insert(['org-1', 'org-2'].map((id) => ({ id, name: id, name_folded: id, created_at: 0, updated_at: 0 })));
  const options = { database, dataDir, installationId: 'installation-1', clock, log, ...overrides };
  const service = new MediaService(options);
  await service.start();
  const links = new MediaLinks(Buffer.alloc(32, 7), () => 'https://plantroom.test:8443', clock);
  const edge = await startEdge((server) => server.addService(MediaServiceService, mediaHandlers(service, links)));
  for (const organizationId of ['org-1', 'org-2']) edge.keys.add(organizationId, { organizationId });
  const client = edge.client(MediaServiceClient);
  const deleteMedia = client.deleteMedia.bind(client);
  const getMedia = client.getMedia.bind(client);
  return {
    test,
    clock,
    log,
    service,
    links,
    client,
    upload: async (bytes, options) => {
      const answer = await sent(client, bytes, options);
      if ('reason' in answer) throw new Error(`the upload failed: ${answer.message}`);
      return answer;
    },
    uploadFails: async (bytes, options) => {
      const answer = await sent(client, bytes, options);
      if ('reason' in answer) return answer;
      throw new Error(`the upload succeeded: ${JSON.stringify(answer)}`);
    },
    get: async (id, as = 'org-1') => await call(getMedia, { id, organizationId: '' }, getKey(as)),
    getFails: async (id, as = 'org-1') => await callFails(getMedia, { id, organizationId: '' }, getKey(as)),
    delete: async (id, as = 'org-1') => await call(deleteMedia, { id, organizationId: '' }, getKey(as)),
    deleteFails: async (id, as = 'org-1') => await callFails(deleteMedia, { id, organizationId: '' }, getKey(as)),
    download: async (id, fields = {}, as = 'org-1') =>
      await all(
        listAnswers(client.downloadMedia(DownloadMediaRequest.fromPartial({ id, ...fields }), headers(getKey(as)))),
      ),
    createDevice: async () => await createDevice(test),
    assignImages: async (deviceId, ids) =>
      await database.transaction(
        async (db) =>
          await new ImageRepository(db).set(
            'org-1',
            deviceId,
            ids.map((mediaId) => ({ mediaId, isCover: false, position: undefined })),
            clock.now(),
          ),
      ),
    files: (where = 'place') =>
      filesIn(join(dataDir, 'media'))
        .filter(({ isTrash }) => isTrash === (where === 'trash'))
        .map(({ name }) => name),
    names: (folder) => (existsSync(join(dataDir, 'media', folder)) ? readdirSync(join(dataDir, 'media', folder)) : []),
    restart: (overrides) => new MediaService({ ...options, clock: new TestClock(Date.now()), ...overrides }),
    stop: async () => {
      await service.stop();
      await edge.stop();
      await test.drop();
    },
  };
}

function filesIn(folder: string): { name: string; isTrash: boolean }[] {
  const entries = readdirSync(folder, { recursive: true, withFileTypes: true }).filter(
    (entry) => entry.isFile() && entry.name !== 'installation',
  );
  return entries.map(({ name, parentPath }) => ({ name, isTrash: parentPath.startsWith(join(folder, 'trash')) }));
}

/** Yields an upload that arrives at once. */
export async function* listParts(chunk: Uint8Array): AsyncGenerator<UploadPart> {
  yield await Promise.resolve({ chunk });
}

/** Collects all items. */
export async function all<T>(items: AsyncIterable<T>): Promise<T[]> {
  const taken: T[] = [];
  for await (const item of items) taken.push(item);
  return taken;
}

/** Returns the headers with which an organization of the fixture calls. */
export function getKey(organizationId: string): Record<string, string> {
  return { 'x-api-key': organizationId, 'x-organization-id': organizationId };
}

async function sent(
  client: MediaServiceClient,
  bytes: Buffer,
  { filename, as = 'org-1', chunkBytes = 1024 * 1024 }: UploadOptions = {},
): Promise<Media | GrpcErrorInfo> {
  return await new Promise((resolve) => {
    const stream = client.uploadMedia(headers(getKey(as)), (error: ServiceError | null, answer: Media) =>
      resolve(error ? parseError(error) : answer),
    );
    stream.on('error', () => {}); // the callback gets the outcome
    if (filename !== undefined) stream.write({ organizationId: '', filename, chunk: Buffer.alloc(0) });
    for (let at = 0; at < bytes.length; at += chunkBytes)
      stream.write({ organizationId: '', filename: undefined, chunk: bytes.subarray(at, at + chunkBytes) });
    stream.end();
  });
}

async function createDevice({ database }: TestDatabase): Promise<string> {
  const id = newId();
  await database.db.knex('digital_devices').insert({
    id,
    organization_id: 'org-1',
    name: id,
    name_folded: id,
    revision: 1,
    seen_hour: 0,
    created_at: 0,
    updated_at: 0,
  });
  return id;
}
