export { DOCS_CSP, DOCS_FILES, docsFile, openApiText, type DocsFile, type DocsName } from './docs';
