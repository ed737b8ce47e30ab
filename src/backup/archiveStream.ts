import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline, type Transform } from 'node:stream';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';
import type * as ageModule from 'age-encryption';
import { formatMessage } from '../kernel/errorUtils';
import { backupCorrupt, backupInvalid, passphraseRequired, passphraseWrong } from './backupErrors';
import { MANIFEST } from './manifest';

// Loaded only if something is encrypted, because loading takes 0.1 s.
const loadAge = (): typeof ageModule => require('age-encryption');

/**
 * With this work factor, age's scrypt needs 32 MiB and about 0.2 s. The default of 18 would need 256 MiB, all the
 * memory of server and backup on a small machine.
 */
const WORK_FACTOR = 15;
/** The maximum that the tool `age` itself accepts. A header must not make this program use more. */
const MAX_WORK_FACTOR = 18;
/** Enough for everything up to `zstd -19`: at most 32 MiB of memory. */
const WINDOW_LOG = 25;

/** Node's compressor ends some streams with an empty frame, and its decompressor stops before it. */
const EMPTY_FRAME = Buffer.from('28b52ffd240001000099e9d851', 'hex');
const ZSTD_MAGIC = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);
const AGE_MAGIC = Buffer.from('age-encryption.org/v1\n');
const HEAD_BYTES = 256;

/** A stage of a byte stream with back-pressure. */
export type ByteStream = AsyncIterable<Uint8Array>;

/** Creates the stage that compresses the tar of a backup. */
export function createCompressor(): Transform {
  return createZstdCompress({ params: { [constants.ZSTD_c_checksumFlag]: 1 } });
}

/** Creates the stage that encrypts with a passphrase, in the format of the tool `age` (`age -p`). */
export function createEncrypter(passphrase: string): (plain: ByteStream) => ByteStream {
  return async function* encrypt(plain) {
    const encrypter = new (loadAge().Encrypter)();
    encrypter.setPassphrase(passphrase);
    encrypter.setScryptWorkFactor(WORK_FACTOR);
    yield* await encrypter.encrypt(ReadableStream.from(plain) as ReadableStream<Uint8Array<ArrayBuffer>>);
  };
}

/**
 * Yields the tar in a backup file, decrypted and decompressed. Throws `backup_invalid`, `backup_corrupt`,
 * `backup_passphrase_required`, `backup_passphrase_wrong`, also while the tar is read. Data after the end of the
 * compressed stream is corruption, because the decompressor ignores it.
 */
export async function* openArchive(
  file: string,
  passphrase: string | undefined,
  signal: AbortSignal | undefined,
): ByteStream {
  const isEncrypted = await isEncryptedBackup(file);
  if (isEncrypted && passphrase === undefined) throw passphraseRequired(file);
  const raw: ByteStream = createReadStream(file, { signal });
  const compressed = isEncrypted ? await decrypt(file, raw, passphrase ?? '') : raw;
  let compressedBytes = 0;
  let tail = Buffer.alloc(0); // the last bytes of the stream, as many as EMPTY_FRAME has
  const countBytes = async function* (): ByteStream {
    for await (const chunk of compressed) {
      compressedBytes += chunk.length;
      tail = Buffer.concat([tail, chunk.subarray(-EMPTY_FRAME.length)]).subarray(-EMPTY_FRAME.length);
      yield chunk;
    }
  };
  const decompressor = createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: WINDOW_LOG } });
  yield* pipeline(countBytes, decompressor, () => {}); // errors are thrown to the reader
  // Node's compressor may end with an empty frame, which its decompressor does not read. Any other rest is corruption.
  const unreadBytes = compressedBytes - decompressor.bytesWritten;
  if (unreadBytes !== 0 && !(unreadBytes === EMPTY_FRAME.length && tail.equals(EMPTY_FRAME)))
    throw backupCorrupt(file, 'its end', 'is followed by other data');
}

/**
 * Whether the backup is encrypted, according to its first bytes. Throws `backup_invalid` for a file of another kind,
 * for an age key instead of a passphrase, and for a passphrase check that would need too much memory.
 */
async function isEncryptedBackup(file: string): Promise<boolean> {
  const head = await readHead(file);
  if (head.subarray(0, ZSTD_MAGIC.length).equals(ZSTD_MAGIC)) return false;
  if (!head.subarray(0, AGE_MAGIC.length).equals(AGE_MAGIC))
    throw backupInvalid(file, head.length === 0 ? 'it is empty' : 'it does not start like a backup');
  // The header of a file with a passphrase contains the line `-> scrypt <salt> <work factor>`.
  const factor = Number(/\n-> scrypt \S+ (\d{1,3})\n/.exec(head.toString('latin1'))?.[1] ?? '0');
  if (factor === 0) {
    throw backupInvalid(
      file,
      'it was encrypted with an age key, not with a passphrase. Decrypt it with "age -d" first',
    );
  }
  if (factor > MAX_WORK_FACTOR) {
    throw backupInvalid(
      file,
      // The factor is the logarithm of the memory in KiB.
      `checking a passphrase on it would need ${2 ** (factor - 10)} MiB of memory (work factor ${factor})`,
    );
  }
  return true;
}

/** Reads the first bytes. Throws `backup_invalid` if the file cannot be read. */
async function readHead(file: string): Promise<Buffer> {
  try {
    await using backupFile = await open(file, 'r');
    const { buffer, bytesRead } = await backupFile.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return buffer.subarray(0, bytesRead);
  } catch (error) {
    throw backupInvalid(file, `it cannot be read (${formatMessage(error)})`, error);
  }
}

/** Returns the decrypted bytes. Throws `backup_passphrase_wrong`, `backup_corrupt`. */
async function decrypt(file: string, raw: ByteStream, passphrase: string): Promise<ByteStream> {
  const decrypter = new (loadAge().Decrypter)();
  decrypter.addPassphrase(passphrase);
  try {
    return await decrypter.decrypt(ReadableStream.from(raw) as ReadableStream<Uint8Array<ArrayBuffer>>);
  } catch (error) {
    if (formatMessage(error).startsWith('no identity matched')) throw passphraseWrong(file, error);
    throw backupCorrupt(file, MANIFEST, `cannot be decrypted (${formatMessage(error)})`, error);
  }
}
