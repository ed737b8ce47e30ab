import { normalizeForSearch } from '../../database';

/** The names of a brand or a model. */
interface Names {
  readonly id: string;
  readonly name: string;
  readonly otherNames: readonly string[];
}

/** A folded brand name and a folded model name by which a model can be found. */
interface ModelAlias {
  readonly brand: string;
  readonly model: string;
  /**
   * 0: both are ids; 1: at least one is a name; 2: an identifier of the repository, or a model name without the leading
   * brand.
   */
  readonly rank: number;
}

/** The maximum length of a name in an alias, because PostgreSQL limits the size of index entries. */
const MAX_LENGTH = 200;

/**
 * Lists all aliases of a model of a brand: pairs of a brand name and a model name, each once with its best (lowest)
 * rank. Ranks: 0 for an id, 1 for a name, 2 for another name; a pair has the worse rank of its two parts.
 */
export function listAliases(brand: Names, model: Names): ModelAlias[] {
  const rankByBrandName = rankTexts([[brand.id], [brand.name], brand.otherNames]);
  const withoutBrandNames = [model.id, model.name].flatMap((name) =>
    removeBrand(foldName(name), [...rankByBrandName.keys()]),
  );
  const rankByModelName = rankTexts([[model.id], [model.name], [...model.otherNames, ...withoutBrandNames]]);
  return [...rankByBrandName].flatMap(([brandName, brandRank]) =>
    [...rankByModelName].map(([modelName, modelRank]) => ({
      brand: brandName,
      model: modelName,
      rank: Math.max(brandRank, modelRank),
    })),
  );
}

/** Maps folded texts to the best rank at which they occur. The index of a list in `textsByRank` is its rank. */
function rankTexts(textsByRank: readonly (readonly string[])[]): Map<string, number> {
  const rankByText = new Map<string, number>();
  for (const [rank, texts] of textsByRank.entries()) {
    for (const text of texts.map(foldName))
      if (text !== '' && text.length <= MAX_LENGTH && !rankByText.has(text)) rankByText.set(text, rank);
  }
  return rankByText;
}

/**
 * Removes the leading brand: `acme t-100` and `acme-t-100` become `t-100`. Empty: the model does not start with one.
 */
function removeBrand(model: string, brands: readonly string[]): string[] {
  return brands.flatMap((brand) =>
    model.startsWith(brand) && /^[\s_/-]/.test(model.slice(brand.length))
      ? [model.slice(brand.length).replace(/^[\s_/-]+/, '')]
      : [],
  );
}

/**
 * Folds a name (trimmed, in lower case) for storage and look-up. NUL characters are removed, because PostgreSQL cannot
 * store them.
 */
export function foldName(text: string): string {
  return normalizeForSearch(text.replaceAll('\0', '').trim());
}
