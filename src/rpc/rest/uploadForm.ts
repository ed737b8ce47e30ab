import multipart from '@fastify/multipart';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Readable } from 'node:stream';
import { DomainError, validationFailed } from '../../kernel/errors';
import { callerGone } from '../openCall';
import { tooLarge } from './uploadBody';

/** The file of a form, and the fields before it. */
export interface FormFile {
  readonly fields: URLSearchParams;
  readonly filename: string;
  readonly bytes: AsyncIterable<Buffer>;
}

const LONGEST_FIELD = 4096;
const LIMITS = { fieldNameSize: 100, fieldSize: LONGEST_FIELD, fields: 16, files: 1, parts: 20, headerPairs: 20, fileSize: Infinity };

/** Lets the routes of the scope read bodies of every type by themselves, and forms. */
export async function takeFiles(scope: FastifyInstance): Promise<void> {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('*', (_request, _body, done) => done(null));
  await scope.register(multipart, { throwFileSizeLimit: false });
}

/**
 * The one file of a form, yielded when the fields before it are here; then what follows is read. Throws validation_failed for a form that
 * cannot be read, or holds no file, several, or fields after it: they would come too late.
 */
export async function* fileOfForm(request: FastifyRequest): AsyncGenerator<FormFile> {
  const fields = new URLSearchParams();
  let isThere = false;
  try {
    for await (const part of request.parts({ limits: LIMITS })) {
      if (part.type === 'field') {
        if (isThere) throw wrong(part.fieldname, 'comes after the file; send it before');
        if (part.valueTruncated || part.fieldnameTruncated) throw wrong(part.fieldname, `is too long; at most ${LONGEST_FIELD} bytes are allowed`);
        if (typeof part.value !== 'string') throw wrong(part.fieldname, 'is no text; send it without a type');
        fields.append(part.fieldname, part.value);
      } else {
        isThere = true;
        yield { fields, filename: part.filename, bytes: bytesOf(part.file, request) };
      }
    }
  } catch (error) {
    throw error instanceof DomainError ? error : faultOf(error as FormError, request);
  }
  if (!isThere) throw wrong('', 'the form holds no file; send one, as a part with a filename');
}

async function* bytesOf(file: Readable, request: FastifyRequest): AsyncGenerator<Buffer> {
  try {
    for await (const piece of file) yield piece as Buffer;
  } catch (error) {
    throw faultOf(error as FormError, request);
  }
}

interface FormError extends Error {
  readonly code?: string;
}

function faultOf({ code, message }: FormError, { raw }: FastifyRequest): DomainError {
  if (code === 'FST_MP_PREMATURE_CLOSE' || (raw.destroyed && !raw.complete)) return callerGone();
  if (code === 'FST_REQ_FILE_TOO_LARGE') return tooLarge();
  if (code === 'FST_FILES_LIMIT') return wrong('', 'the form holds more than one file; send one');
  if (code === 'FST_FIELDS_LIMIT' || code === 'FST_PARTS_LIMIT') return wrong('', `the form holds too many fields; at most ${LIMITS.fields} are allowed`);
  return wrong('', `the form cannot be read (${message}); send multipart/form-data with one file`);
}

function wrong(field: string, description: string): DomainError {
  return validationFailed([{ field: field.slice(0, LIMITS.fieldNameSize), description }]);
}
