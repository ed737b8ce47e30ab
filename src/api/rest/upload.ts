import type { FastifyRequest } from 'fastify';
import { DomainError, throwIfAny, type Violation } from '../../kernel/errors';
import type { MethodDescriptor } from '../descriptors/descriptors';
import type { RequestReader } from '../json/requestReader';
import { applyConditionalHeaders } from './conditional';
import { MAX_UPLOAD_BYTES, uploadTooLarge, UploadBody } from './uploadBody';
import { readFormFile } from './uploadForm';

type Message = Record<string, unknown>;

/** Dependencies of an upload. */
interface UploadOptions {
  readonly request: FastifyRequest;
  readonly descriptor: MethodDescriptor;
  readonly reader: RequestReader;
  /** Ends the call with an error. */
  readonly fail: (error: unknown) => void;
}

const MAX_CHUNK_BYTES = 64 * 1024;
const EMPTY_REQUEST = { path: {}, query: new URLSearchParams(), body: undefined, bodyRule: '' };

/**
 * Converts the body of a request to the messages of its stream. The bytes are in the field `chunk`. The first message
 * also has the other fields, from the query and the fields of a form; the file name may also come from the file.
 * Messages are created on demand, so that a slow handler slows down the sender.
 */
export class Upload {
  private readonly messages: AsyncGenerator<Message>;
  private readonly emptyMessage: Message;
  private body: UploadBody | undefined;
  private receivedBytes = 0;

  /** Throws media_type_unsupported, and message_too_large if Content-Length exceeds the limit. */
  constructor(private readonly options: UploadOptions) {
    const isForm = isMultipartForm(options.request);
    this.emptyMessage = options.reader.read(EMPTY_REQUEST, []);
    this.messages = isForm ? this.readForm() : this.readBody();
  }

  /** Returns the next message; undefined after the last. Rejects if the upload is invalid. */
  async next(): Promise<Message | undefined> {
    const next = await this.messages.next();
    return next.done === true ? undefined : next.value;
  }

  /**
   * Called when the call has ended. Reads and discards the rest of the body, because most clients read the response
   * only after they have sent everything: they would block if the server stopped reading. `body` is undefined for a
   * form, and if the handler has not read any message yet.
   */
  stop(): void {
    const { request } = this.options;
    request.raw.off('data', this.countBytes);
    void this.messages.return(undefined).catch(() => {}); // the call knows the error, or has ended
    request.raw.unpipe();
    if (this.body) this.body.discard();
    else request.raw.resume();
  }

  /** Yields the messages of an upload whose body is the file itself. */
  private async *readBody(): AsyncGenerator<Message> {
    const { request } = this.options;
    const body = (this.body = new UploadBody(request.raw));
    request.raw.on('data', this.countBytes);
    const first = this.createFirstMessage(new URLSearchParams(), parseFilename(request.headers['content-disposition']));
    yield* this.createMessages(first, listPieces(body));
  }

  /**
   * Yields the messages of an upload whose body is a form. There is one file; the loop then reads the rest of the form,
   * which throws if anything follows the file.
   */
  private async *readForm(): AsyncGenerator<Message> {
    const files = readFormFile(this.options.request);
    const firstFile = files.next(); // starts reading
    this.options.request.raw.on('data', this.countBytes);
    for (let file = await firstFile; file.done !== true; file = await files.next()) {
      const { fields, filename, bytes } = file.value;
      yield* this.createMessages(this.createFirstMessage(fields, filename), bytes);
    }
  }

  /** Counts the received bytes, and fails the call if there are too many; Content-Length may be missing. */
  private readonly countBytes = (piece: Buffer): void => {
    this.receivedBytes += piece.length;
    if (this.receivedBytes > MAX_UPLOAD_BYTES) this.options.fail(uploadTooLarge());
  };

  /** Creates the first message without its chunk. Throws validation_failed. */
  private createFirstMessage(fields: URLSearchParams, filename: string): Message {
    const { request, descriptor, reader } = this.options;
    const query = new URLSearchParams(
      [...(request.query as URLSearchParams), ...fields].filter(([name]) => name !== 'chunk'),
    );
    const violations: Violation[] = [];
    if ((request.query as URLSearchParams).has('chunk') || fields.has('chunk'))
      violations.push({
        field: 'chunk',
        description: 'is the body or the file of the form: remove it from the query and the form fields',
      });
    const message = reader.read(
      { path: request.params as Record<string, string>, query, body: undefined, bodyRule: '' },
      violations,
    );
    applyConditionalHeaders(request, descriptor, message, violations);
    throwIfAny(violations);
    if (filename !== '' && descriptor.request.fields.some(({ name }) => name === 'filename'))
      message['filename'] ??= filename;
    return message;
  }

  /**
   * Yields the first message with the first chunk, then one message per further chunk. An empty file yields one message
   * with an empty chunk.
   */
  private async *createMessages(firstMessage: Message, pieces: AsyncIterable<Buffer>): AsyncGenerator<Message> {
    let pendingFirst: Message | undefined = firstMessage;
    for await (const piece of pieces) {
      for (let start = 0; start < piece.length; start += MAX_CHUNK_BYTES) {
        yield { ...(pendingFirst ?? this.emptyMessage), chunk: piece.subarray(start, start + MAX_CHUNK_BYTES) };
        pendingFirst = undefined;
      }
    }
    if (pendingFirst) yield { ...pendingFirst, chunk: Buffer.alloc(0) };
  }
}

/**
 * Returns whether the body is a form; otherwise it is the file. Throws media_type_unsupported if the type is neither,
 * and message_too_large if the body is too large.
 */
function isMultipartForm({ headers }: FastifyRequest): boolean {
  const type = /^[^;\s]*/.exec(headers['content-type'] ?? '')?.[0].toLowerCase() ?? '';
  if (Number(headers['content-length'] ?? 0) > MAX_UPLOAD_BYTES) throw uploadTooLarge();
  if (type === 'multipart/form-data') return true;
  if (type === '' || type === 'application/octet-stream' || type.startsWith('image/')) return false;
  throw new DomainError(
    'unsupported_media_type',
    'media_type_unsupported',
    'this route does not support the type of the body: send the file as image/* or application/octet-stream, or as multipart/form-data',
  );
}

async function* listPieces(body: UploadBody): AsyncGenerator<Buffer> {
  for (let piece = await body.next(); piece; piece = await body.next()) yield piece;
}

/** Returns the file name of a Content-Disposition header, unquoted and decoded; empty if none. */
function parseFilename(disposition: string | undefined): string {
  // `filename*=UTF-8''name` takes precedence over `filename="name"`.
  const [, encoded] = /;\s*filename\*\s*=\s*UTF-8'[^']*'([^;\s]+)/i.exec(disposition ?? '') ?? [];
  if (encoded !== undefined) {
    try {
      return decodeURIComponent(encoded);
    } catch {
      return ''; // an invalid name is ignored
    }
  }
  const [, quoted, bare] = /;\s*filename\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^;\s"]+))/i.exec(disposition ?? '') ?? [];
  return quoted?.replaceAll(/\\(.)/g, '$1') ?? bare ?? '';
}
