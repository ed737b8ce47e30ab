import multipart from '@fastify/multipart';
import type { FastifyInstance, FastifyRequest } from 'fastify';
import type { Readable } from 'node:stream';
import { DomainError, validationFailed } from '../../kernel/errors';
import { clientCancelled } from '../pipeline/activeCall';
import { uploadTooLarge } from './uploadBody';

/** The file of a form, and the fields before it. */
interface FormFile {
  readonly fields: URLSearchParams;
  readonly filename: string;
  readonly bytes: AsyncIterable<Buffer>;
}

const MAX_FIELD_LENGTH = 4096;
const LIMITS = {
  fieldNameSize: 100,
  fieldSize: MAX_FIELD_LENGTH,
  fields: 16,
  files: 1,
  parts: 20,
  headerPairs: 20,
  fileSize: Infinity,
};

/**
 * Configures the routes of the scope to read bodies of every type, and forms, as streams: the parser of fastify for
 * other types does nothing, so that the handler reads the raw request.
 */
export async function registerUploadParsers(scope: FastifyInstance): Promise<void> {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser('*', (_request, _body, done) => done(null));
  await scope.register(multipart, { throwFileSizeLimit: false });
}

/**
 * Yields the file of a form when the fields before it have been read, and then reads the rest. Throws validation_failed
 * if the form is invalid, has no file or several files, or has fields after the file, which would arrive too late.
 */
export async function* readFormFile(request: FastifyRequest): AsyncGenerator<FormFile> {
  const fields = new URLSearchParams();
  let hasFile = false;
  try {
    for await (const part of request.parts({ limits: LIMITS })) {
      if (part.type === 'field') {
        if (hasFile) throw invalidForm(part.fieldname, 'comes after the file: send it before the file');
        if (part.valueTruncated || part.fieldnameTruncated)
          throw invalidForm(part.fieldname, `is too long: at most ${MAX_FIELD_LENGTH} bytes are allowed`);
        if (typeof part.value !== 'string')
          throw invalidForm(part.fieldname, 'is not text: send it without a content type');
        fields.append(part.fieldname, part.value);
      } else {
        hasFile = true;
        yield { fields, filename: part.filename, bytes: listBytes(part.file, request) };
      }
    }
  } catch (error) {
    throw error instanceof DomainError ? error : toDomainError(error as MultipartError, request);
  }
  if (!hasFile) throw invalidForm('', 'the form has no file: send one as a part with a filename');
}

/** Yields the bytes of the file; converts the errors of the form parser. */
async function* listBytes(file: Readable, request: FastifyRequest): AsyncGenerator<Buffer> {
  try {
    for await (const piece of file) yield piece as Buffer;
  } catch (error) {
    throw toDomainError(error as MultipartError, request);
  }
}

interface MultipartError extends Error {
  readonly code?: string;
}

/** Converts an error of the form parser to the error for the client. */
function toDomainError({ code, message }: MultipartError, { raw }: FastifyRequest): DomainError {
  if (code === 'FST_MP_PREMATURE_CLOSE' || (raw.destroyed && !raw.complete)) return clientCancelled();
  if (code === 'FST_REQ_FILE_TOO_LARGE') return uploadTooLarge();
  if (code === 'FST_FILES_LIMIT') return invalidForm('', 'the form has more than one file: send only one');
  if (code === 'FST_FIELDS_LIMIT' || code === 'FST_PARTS_LIMIT')
    return invalidForm('', `the form has too many fields: at most ${LIMITS.fields} are allowed`);
  return invalidForm('', `the form cannot be read (${message}): send multipart/form-data with one file`);
}

function invalidForm(field: string, description: string): DomainError {
  return validationFailed([{ field: field.slice(0, LIMITS.fieldNameSize), description }]);
}
