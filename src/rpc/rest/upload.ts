import type { FastifyRequest } from 'fastify';
import { DomainError, throwIfAny, type Violation } from '../../kernel/errors';
import type { MethodFacts } from '../descriptors';
import type { RequestReader } from '../json/requestReader';
import { takeConditions } from './conditional';
import { LARGEST_UPLOAD, tooLarge, UploadBody } from './uploadBody';
import { fileOfForm } from './uploadForm';

type Message = Record<string, unknown>;

/** What an upload is made of. */
export interface UploadOptions {
  readonly request: FastifyRequest;
  readonly facts: MethodFacts;
  readonly reader: RequestReader;
  /** Ends the call. */
  readonly fail: (error: unknown) => void;
}

const LARGEST_CHUNK = 64 * 1024;
const NOTHING = { path: {}, query: new URLSearchParams(), body: undefined, bodyRule: '' };

/**
 * The body of a request as the messages of its stream: the bytes in their `chunk`, all else in the first, from the query and the fields of
 * a form, the file's name also from the file. Each is made when it is asked for, so that a slow handler makes the caller wait.
 */
export class Upload {
  private readonly messages: AsyncGenerator<Message>;
  private readonly empty: Message;
  private body: UploadBody | undefined;
  private received = 0;

  /** Throws media_type_unsupported; message_too_large where the headers say so already. */
  constructor(private readonly options: UploadOptions) {
    const isForm = isFormOf(options.request);
    this.empty = options.reader.read(NOTHING, []);
    this.messages = isForm ? this.ofForm() : this.ofBody();
  }

  /** The next message; undefined after the last. Rejects with what is wrong with the upload. */
  async next(): Promise<Message | undefined> {
    const next = await this.messages.next();
    return next.done === true ? undefined : next.value;
  }

  /** The call has ended: what still comes is read and forgotten, since a caller that still sends reads no answer. */
  stop(): void {
    const { request } = this.options;
    request.raw.off('data', this.count);
    void this.messages.return(undefined).catch(() => {}); // it was told to the call, or comes too late
    request.raw.unpipe();
    if (this.body) this.body.forget();
    else request.raw.resume();
  }

  private async *ofBody(): AsyncGenerator<Message> {
    const { request } = this.options;
    const body = (this.body = new UploadBody(request.raw));
    request.raw.on('data', this.count);
    const first = this.first(new URLSearchParams(), filenameIn(request.headers['content-disposition']));
    yield* this.chunks(first, piecesOf(body));
  }

  private async *ofForm(): AsyncGenerator<Message> {
    const files = fileOfForm(this.options.request);
    const found = files.next(); // it reads from here on
    this.options.request.raw.on('data', this.count);
    for (let file = await found; file.done !== true; file = await files.next()) {
      const { fields, filename, bytes } = file.value;
      yield* this.chunks(this.first(fields, filename), bytes);
    }
  }

  private readonly count = (piece: Buffer): void => {
    this.received += piece.length;
    if (this.received > LARGEST_UPLOAD) this.options.fail(tooLarge());
  };

  /** What stands in the first message beside its chunk. Throws validation_failed. */
  private first(fields: URLSearchParams, filename: string): Message {
    const { request, facts, reader } = this.options;
    const query = new URLSearchParams([...(request.query as URLSearchParams), ...fields].filter(([name]) => name !== 'chunk'));
    const found: Violation[] = [];
    if ((request.query as URLSearchParams).has('chunk') || fields.has('chunk')) found.push({ field: 'chunk', description: 'is the body itself, or the file of the form; leave it out here' });
    const message = reader.read({ path: request.params as Record<string, string>, query, body: undefined, bodyRule: '' }, found);
    takeConditions(request, facts, message, found);
    throwIfAny(found);
    if (filename !== '' && facts.request.fields.some(({ name }) => name === 'filename')) message['filename'] ??= filename;
    return message;
  }

  private async *chunks(first: Message, pieces: AsyncIterable<Buffer>): AsyncGenerator<Message> {
    let head: Message | undefined = first;
    for await (const piece of pieces) {
      for (let at = 0; at < piece.length; at += LARGEST_CHUNK) {
        yield { ...(head ?? this.empty), chunk: piece.subarray(at, at + LARGEST_CHUNK) };
        head = undefined;
      }
    }
    if (head) yield { ...head, chunk: Buffer.alloc(0) };
  }
}

/** Whether the body is a form; else it is the file itself. Throws for what is neither, or too large. */
function isFormOf({ headers }: FastifyRequest): boolean {
  const type = /^[^;\s]*/.exec(headers['content-type'] ?? '')?.[0].toLowerCase() ?? '';
  if (Number(headers['content-length'] ?? 0) > LARGEST_UPLOAD) throw tooLarge();
  if (type === 'multipart/form-data') return true;
  if (type === '' || type === 'application/octet-stream' || type.startsWith('image/')) return false;
  throw new DomainError('unsupported_media_type', 'media_type_unsupported', 'the body is of a type that this address does not take; send the file itself as image/* or application/octet-stream, or as multipart/form-data');
}

async function* piecesOf(body: UploadBody): AsyncGenerator<Buffer> {
  for (let piece = await body.next(); piece; piece = await body.next()) yield piece;
}

/** The name that a header Content-Disposition gives a file; empty: none. */
function filenameIn(disposition: string | undefined): string {
  const [, encoded] = /;\s*filename\*\s*=\s*UTF-8'[^']*'([^;\s]+)/i.exec(disposition ?? '') ?? [];
  if (encoded !== undefined) {
    try {
      return decodeURIComponent(encoded);
    } catch {
      return ''; // a name that cannot be read is none
    }
  }
  const [, quoted, bare] = /;\s*filename\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s"]+))/i.exec(disposition ?? '') ?? [];
  return quoted?.replaceAll(/\\(.)/g, '$1') ?? bare ?? '';
}
