import { createReadStream } from 'node:fs';
import { open } from 'node:fs/promises';
import { pipeline, type Transform } from 'node:stream';
import { constants, createZstdCompress, createZstdDecompress } from 'node:zlib';
import type * as ageModule from 'age-encryption';
import { messageOf } from '../../kernel/thrown';
import { damagedBackup, notBackup, passphraseNeeded, passphraseWrong } from './backupErrors';
import { MANIFEST } from './manifest';

// Only where something is encrypted: to load it takes 0.1 s.
const lazyAge = (): typeof ageModule => require('age-encryption');

/** The scrypt of age with this work factor takes 32 MiB and some 0.2 s; the usual 18 would take 256 MiB, all that server and backup together may have on a small machine. */
const WORK_FACTOR = 15;
/** What the tool `age` itself takes; a header may not make us take more. */
const HIGHEST_WORK_FACTOR = 18;
/** Enough for everything up to `zstd -19`: 32 MiB of memory at the most. */
const WINDOW_LOG = 25;

/** Node's compressor ends some streams with a frame that holds nothing, and its decompressor stops before it. */
const EMPTY_FRAME = Buffer.from('28b52ffd240001000099e9d851', 'hex');
const ZSTD_MAGIC = Buffer.from([0x28, 0xb5, 0x2f, 0xfd]);
const AGE_MAGIC = Buffer.from('age-encryption.org/v1\n');
const HEAD_BYTES = 256;

/** Bytes on their way, with back-pressure. */
export type Bytes = AsyncIterable<Uint8Array>;

/** What the tar of a backup is written through. */
export function compressing(): Transform {
  return createZstdCompress({ params: { [constants.ZSTD_c_checksumFlag]: 1 } });
}

/** Encrypts as `age -p` does. */
export function encrypting(passphrase: string): (plain: Bytes) => Bytes {
  return async function* encrypted(plain) {
    const encrypter = new (lazyAge().Encrypter)();
    encrypter.setPassphrase(passphrase);
    encrypter.setScryptWorkFactor(WORK_FACTOR);
    yield* await encrypter.encrypt(ReadableStream.from(plain) as ReadableStream<Uint8Array<ArrayBuffer>>);
  };
}

/** The tar in a backup file. Throws `backup_not_one`, `backup_damaged`, `backup_passphrase_needed`, `backup_passphrase_wrong`, also while it is read. */
export async function* openArchive(file: string, passphrase: string | undefined, signal: AbortSignal | undefined): Bytes {
  const isEncrypted = await looksEncrypted(file);
  if (isEncrypted && passphrase === undefined) throw passphraseNeeded(file);
  const raw: Bytes = createReadStream(file, { signal });
  const compressed = isEncrypted ? await decrypted(file, raw, passphrase ?? '') : raw;
  let given = 0;
  let tail = Buffer.alloc(0);
  const counted = async function* (): Bytes {
    for await (const chunk of compressed) {
      given += chunk.length;
      tail = Buffer.concat([tail, chunk.subarray(-EMPTY_FRAME.length)]).subarray(-EMPTY_FRAME.length);
      yield chunk;
    }
  };
  const unpacking = createZstdDecompress({ params: { [constants.ZSTD_d_windowLogMax]: WINDOW_LOG } });
  yield* pipeline(counted, unpacking, () => {}); // what fails is thrown where it is read
  const left = given - unpacking.bytesWritten;
  if (left !== 0 && !(left === EMPTY_FRAME.length && tail.equals(EMPTY_FRAME))) throw damagedBackup(file, 'its end', 'is followed by something else');
}

async function looksEncrypted(file: string): Promise<boolean> {
  const head = await headOf(file);
  if (head.subarray(0, ZSTD_MAGIC.length).equals(ZSTD_MAGIC)) return false;
  if (!head.subarray(0, AGE_MAGIC.length).equals(AGE_MAGIC)) throw notBackup(file, head.length === 0 ? 'it is empty' : 'it begins otherwise');
  const factor = Number(/\n-> scrypt \S+ (\d{1,3})\n/.exec(head.toString('latin1'))?.[1] ?? '0');
  if (factor === 0) throw notBackup(file, 'it was encrypted with a key of age, not with a passphrase; decrypt it with "age -d" first');
  if (factor > HIGHEST_WORK_FACTOR) throw notBackup(file, `to try a passphrase on it would take ${2 ** (factor - 10)} MiB of memory (work factor ${factor})`);
  return true;
}

async function headOf(file: string): Promise<Buffer> {
  try {
    await using handle = await open(file, 'r');
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(HEAD_BYTES), 0, HEAD_BYTES, 0);
    return buffer.subarray(0, bytesRead);
  } catch (error) {
    throw notBackup(file, `it cannot be read (${messageOf(error)})`, error);
  }
}

async function decrypted(file: string, raw: Bytes, passphrase: string): Promise<Bytes> {
  const decrypter = new (lazyAge().Decrypter)();
  decrypter.addPassphrase(passphrase);
  try {
    return await decrypter.decrypt(ReadableStream.from(raw) as ReadableStream<Uint8Array<ArrayBuffer>>);
  } catch (error) {
    if (messageOf(error).startsWith('no identity matched')) throw passphraseWrong(file, error);
    throw damagedBackup(file, MANIFEST, `cannot be decrypted (${messageOf(error)})`, error);
  }
}
