import { UsageError } from '../exit';
import { runFolderTest } from './folderTest';
import { runProfilesTest, type ProfilesFlags } from './profilesTest';

/** Options of `plantroom codec test`. */
export interface TestFlags extends ProfilesFlags {
  readonly profiles?: boolean;
}

/** Runs `plantroom codec test` for the scripts of a folder or the imported codecs. */
export async function runCodecTest(folder: string | undefined, { profiles, ...flags }: TestFlags): Promise<void> {
  if (profiles && folder !== undefined)
    throw new UsageError('a folder and --profiles cannot be combined: use one of them');
  if (profiles) return await runProfilesTest(flags);
  if (flags.vendor || flags.source !== undefined)
    throw new UsageError('--vendor and --source select imported codecs: add --profiles');
  if (folder === undefined) throw new UsageError('specify a folder of scripts, or --profiles for the imported codecs');
  await runFolderTest(folder, flags);
}
