"""Declarations of every form that CANN's headers have. The texts are ours."""

import pytest

from cann_mla.headers import AliasType, Constant, EnumType, Header, RecordType, Signature, parse


def read(text: str, **options: bool) -> Header:
    header = parse(text, "x.h", **options)
    assert header.problems == []
    return header


def one(text: str) -> Signature:
    (signature,) = read(text).signatures
    return signature


def test_a_plain_prototype() -> None:
    signature = one("aclError aclrtMalloc(void **devPtr, size_t size, aclrtMemMallocPolicy policy);")
    assert signature.name == "aclrtMalloc"
    assert signature.restype == "aclError"
    assert [(p.name, p.type) for p in signature.parameters] == [
        ("devPtr", "void **"),
        ("size", "size_t"),
        ("policy", "aclrtMemMallocPolicy"),
    ]
    assert (signature.header, signature.line) == ("x.h", 1)


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("const aclTensor* x", "const aclTensor *"),
        ("aclTensor const *x", "const aclTensor *"),
        ("const aclTensor *const x", "const aclTensor *"),
        ("const aclTensor * const * value", "const aclTensor *const *"),
        ("const aclTensorDesc *const inputs[]", "const aclTensorDesc *const *"),
        ("int64_t dims[8]", "int64_t *"),
        ("int64_t ranges[][2]", "int64_t (*)[2]"),
        ("const aclrtStream stream", "aclrtStream"),
        ("const int32_t n", "int32_t"),
        ("unsigned int n", "unsigned int"),
        ("struct rtInfo *info", "rtInfo *"),
        ("std::int64_t n", "int64_t"),
        ("::atb::Context *c", "atb_Context *"),
        ("char *s = nullptr", "char *"),
        ("uint32_t *const timeout", "uint32_t *"),
        ("int32_t (*const callback)(const chunk *, int32_t)", "int32_t (*)(const chunk *, int32_t)"),
    ],
)
def test_types_have_one_spelling(written: str, read_as: str) -> None:
    assert one(f"int f({written});").parameters[0].type == read_as


def test_names_and_defaults_of_parameters() -> None:
    signature = one("int f(int, double epsilon = 1e-5, bool flag = false, const Config &c = {});".replace("&c", "*c"))
    assert [p.name for p in signature.parameters] == ["arg0", "epsilon", "flag", "c"]
    assert [p.default for p in signature.parameters] == [None, "1e-5", "false", "{}"]


@pytest.mark.parametrize("empty", ["f()", "f(void)"])
def test_no_parameters(empty: str) -> None:
    signature = one(f"const char *{empty};")
    assert signature.parameters == ()
    assert signature.prototype() == "const char *f(void)"


def test_variadic() -> None:
    signature = one("void aclAppLog(int level, const char *fmt, ...);")
    assert signature.variadic
    assert signature.prototype() == "void aclAppLog(int level, const char *fmt, ...)"


def test_prototype_puts_the_name_inside_a_function_pointer() -> None:
    signature = one("int reg(void (*fn)(void *data), void *data);")
    assert signature.prototype() == "int reg(void (*fn)(void *), void *data)"


@pytest.mark.parametrize(
    "decorated",
    [
        '__attribute__((visibility("default"))) int f(int a);',
        "ACL_FUNC_VISIBILITY int f(int a);",
        "ACLNN_API int f(int a);",
        'ACL_DEPRECATED_MESSAGE("use g (or h)") ACL_FUNC_VISIBILITY int f(int a);',
        "[[nodiscard]] int f(int a);",
        "extern int f(int a);",
        'extern "C" int f(int a);',
        "int f(int a) __attribute__((weak));",
        "int f(int a) noexcept;",
        '#define MY_API __attribute__((visibility("default")))\nMY_API int f(int a);',
        "#define MY_API ACLNN_API\n#define YOUR_API MY_API\nYOUR_API int f(int a);",
        '#define DEPRECATED(text) __attribute__((deprecated(text)))\nDEPRECATED("x") int f(int a);',
    ],
)
def test_decoration_is_dropped(decorated: str) -> None:
    assert one(decorated).prototype() == "int f(int a)"


def test_extern_c_blocks_and_comments() -> None:
    text = """
    #ifdef __cplusplus
    extern "C" {
    #endif
    /* int no(void); */ // int no(void);
    int f(/* the first */ int a, // the second
          int b);
    const char *text(void); /* a "quoted /* text" */
    #ifdef __cplusplus
    }
    #endif
    """
    for cplusplus in (False, True):
        header = read(text, cplusplus=cplusplus)
        assert [s.prototype() for s in header.signatures] == ["int f(int a, int b)", "const char *text(void)"]
        assert [s.line for s in header.signatures] == [6, 8]


def test_a_reference_in_an_extern_c_block_is_the_pointer_it_is_in_the_abi() -> None:
    header = read('extern "C" { int f(uint64_t &size); } int g(uint64_t &size);')
    assert [s.prototype() for s in header.signatures] == ["int f(uint64_t *size)"]
    assert [(i.what, i.name) for i in header.ignored] == [("C++ (a C++ reference)", "g")]


def test_enums() -> None:
    header = read(
        """
        typedef enum aclKind { A = -1, B, C = 0x10, D = C + 2, E = 1U << 3, } aclKind;
        typedef enum { F } Plain;
        enum Tagged { G = 5 };
        enum class Scoped : int { H = 1 };
        """
    )
    kinds = {d.name: d.values for d in header.declarations if isinstance(d, EnumType)}
    assert kinds["aclKind"] == (("A", -1), ("B", 0), ("C", 16), ("D", 18), ("E", 8))
    assert kinds["Plain"] == (("F", 0),)
    assert kinds["Tagged"] == (("G", 5),)
    assert kinds["Scoped"] == (("Scoped_H", 1),)


def test_structs_and_unions() -> None:
    header = read(
        """
        #define SIZE 4
        typedef struct Opaque Opaque;
        struct Forward;
        typedef struct { int a, b; const char *text; uint8_t data[SIZE * 2]; } Plain;
        typedef union Value { uint16_t small; struct { int x; } inner; } Value;
        typedef struct Outer { int kind; union { int i; float f; }; void (*fn)(int); } Outer;
        """
    )
    records = {d.name: d for d in header.declarations if isinstance(d, RecordType)}
    assert records["Opaque"].fields is None
    assert records["Forward"].fields is None
    assert records["Plain"].fields == (("a", "int"), ("b", "int"), ("text", "const char *"), ("data", "uint8_t[8]"))
    assert records["Value"].kind == "union"
    assert records["Value"].fields == (("small", "uint16_t"), ("inner", "struct { int x; }"))
    assert records["Outer"].fields == (("kind", "int"), ("", "union { int i; float f; }"), ("fn", "void (*)(int)"))


def test_typedefs() -> None:
    header = read(
        """
        typedef void *aclrtStream, *aclrtEvent;
        typedef int32_t aclnnStatus;
        typedef void (*Callback)(void *userData);
        typedef struct tagInfo aclrtInfo;
        using Status = int32_t;
        """
    )
    aliases = {d.name: d.type for d in header.declarations if isinstance(d, AliasType)}
    assert aliases == {
        "aclrtStream": "void *",
        "aclrtEvent": "void *",
        "aclnnStatus": "int32_t",
        "Callback": "void (*)(void *)",
        "aclrtInfo": "struct tagInfo",
        "Status": "int32_t",
    }


def test_constants() -> None:
    header = read(
        """
        #define ACL_EVENT_SYNC 0x00000001U
        #define ACL_WRAPPED (0X8U)
        #define ACL_ALIAS ACL_EVENT_SYNC
        static const int ACL_ERROR_X = 100001;
        constexpr aclnnStatus OK = 0;
        const uint32_t BYTES = 4108;
        #define TEXT "no number"
        static const float RATIO = 0.5;
        """
    )
    assert header.constants == {
        "ACL_EVENT_SYNC": 1,
        "ACL_WRAPPED": 8,
        "ACL_ALIAS": 1,
        "ACL_ERROR_X": 100001,
        "OK": 0,
        "BYTES": 4108,
    }
    assert [(i.what, i.name) for i in header.ignored] == [("macro", "TEXT"), ("variable", "RATIO")]
    assert {type(d) for d in header.declarations} == {Constant}


def test_cplusplus_that_c_cannot_use_is_listed() -> None:
    header = read(
        """
        #include <vector>
        namespace atb {
        class Context { public: virtual int SetExecuteStream(void *stream) = 0; };
        struct Dims { int64_t dims[8]; uint64_t dimNum = 0; bool operator==(const Dims &other) const; };
        int CreateContext(Context **context);
        template <typename T> int Create(const T &param);
        inline bool operator==(const Dims &a, const Dims &b) { return a.dimNum == b.dimNum; }
        using Status = int32_t;
        enum ErrorType : int { NO_ERROR = 0, ERROR_INVALID_PARAM };
        }
        inline int helper(int a) { if (a) { return 1; } return 0; }
        std::string name();
        static_assert(sizeof(int) == 4, "int");
        """
    )
    assert header.signatures == []
    assert header.includes == ["vector"]
    assert [i.what for i in header.ignored] == [
        "C++ class",
        "C++ (it has member functions)",
        "C++ function",
        "C++ template",
        "function body",
        "function body",
        "C++ (std::string is a C++ type)",
        "C++ static_assert",
    ]
    assert header.constants == {"NO_ERROR": 0, "ERROR_INVALID_PARAM": 1}
    assert [d.name for d in header.declarations] == ["atb_Status", "atb_ErrorType"]


def test_a_struct_with_a_constructor_is_of_no_use_to_c() -> None:
    header = read(
        'extern "C" { typedef struct dim3 { int x; constexpr dim3(int a = 1) : x(a) {} } dim3; int f(int a); }'
    )
    assert [(i.what, i.name) for i in header.ignored] == [("C++ (it has member functions)", "dim3")]
    assert [s.name for s in header.signatures] == ["f"]


def test_a_prototype_in_extern_c_within_a_namespace_is_read() -> None:
    header = read('namespace a { extern "C" { int f(int x); } int g(int x); }')
    assert [s.name for s in header.signatures] == ["f"]


def test_release_remarks() -> None:
    header = read(
        """
        int a(void); /* since 9.1 */
        int b(
            int x,
            int y); // since 8.5.0.alpha001 until 8.5.0-beta.1
        int c(void); /* until 9.2 */
        int d(void); /* since the beginning of time */
        """
    )
    assert [(s.name, s.since, s.until) for s in header.signatures] == [
        ("a", "9.1", None),
        ("b", "8.5.0.alpha001", "8.5.0-beta.1"),
        ("c", None, "9.2"),
        ("d", None, None),
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_line_comment_goes_on_behind_a_backslash(end: str) -> None:
    header = read(f"// a path\\to\\{end}int f(int a);{end}int g(int a); // last \\")
    assert [(s.name, s.line) for s in header.signatures] == [("g", 3)]


def test_windows_line_ends_and_a_byte_order_mark() -> None:
    header = read("\ufeff#define A \\\r\n 3\r\nint f(\r\n  int a);\r\n")
    assert header.constants == {"A": 3}
    assert [(s.prototype(), s.line) for s in header.signatures] == [("int f(int a)", 3)]
